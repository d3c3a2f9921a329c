"""Trains planner and critic: supervised fine-tuning, GRPO, and the reward for other trainers."""
