"""Training planner and critic: rewards, supervised fine-tuning, GRPO, and shims for other trainers."""
