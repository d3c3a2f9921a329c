"""The built-in miniature: a small world of pictures, a language about it, a reader that sees it.

`world` (scenes and how they look) ← `language` (what can be said and asked) and `reader` (picture → scene)
← `oracle` (agents that compute instead of learning, named as such wherever they appear).
"""
