"""The prompt pack of the miniature's models: a few words, for models that read slowly."""
