"""Shared HTTP layer of both servers: limits, authorization, request bodies, image decoding."""
