"""Calibration of a critic: fit of its confidence to human labels, and the threshold to accept at."""
