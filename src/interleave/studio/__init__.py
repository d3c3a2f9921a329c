"""The studio: the page where people make, watch and read documents, and the routes that it needs besides."""
