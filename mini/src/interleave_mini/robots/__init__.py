"""The miniature's robot: a gripper that carries out sub-tasks with errors, and episodes of its work."""
