"""Many runs at once: requests from a file, assignment, shards, workers."""
