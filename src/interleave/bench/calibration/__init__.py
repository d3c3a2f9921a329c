"""How well a critic's confidence fits what people say, and from which confidence on it should accept."""
