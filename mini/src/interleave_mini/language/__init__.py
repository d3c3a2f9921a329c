"""The miniature's language: prompts and captions about scenes, written and parsed; the words of requests.

`words` and `references` name things and places; `descriptions` and `sentences` say scenes and operations;
`prompts` joins both. `vocabulary` tells known, mistyped and unknown words of requests apart.
"""
