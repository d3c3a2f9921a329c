"""A run on disk: its journal, pictures and record; how it is started, continued and limited."""
