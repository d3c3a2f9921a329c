"""The studio: a page to make, watch and read documents, and the routes it adds to the document service."""
