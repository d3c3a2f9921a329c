"""The image generators that ship with the product."""
