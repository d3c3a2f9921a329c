"""Safety checks: word rules, a model that is asked, and writing in images."""
