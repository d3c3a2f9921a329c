"""Requests to run folders: planner, generators and critic of any spec, in this process or on a cluster."""
