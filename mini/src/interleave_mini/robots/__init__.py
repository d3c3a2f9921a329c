"""The miniature's robot: a gripper that carries out sub-tasks and errs, and films of what it does."""
