"""The miniature's language: requests, prompts, captions, and how they are read back."""
