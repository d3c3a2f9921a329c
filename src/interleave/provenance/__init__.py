"""Content credentials (C2PA): signed statements of how images and documents were made, and their check."""
