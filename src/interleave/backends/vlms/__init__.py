"""The vision-language models that ship with the product."""
