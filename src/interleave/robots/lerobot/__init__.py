"""LeRobot datasets, format v3: read and written with pyarrow and PyAV alone."""
