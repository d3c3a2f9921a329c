"""Training: one reward for every trainer, supervised fine-tuning and GRPO for planner and critic."""
