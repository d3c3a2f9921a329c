"""Many runs at once: requests from a file, their assignment to generators and shards, the worker."""
