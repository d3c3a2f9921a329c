"""The miniature's language: requests, prompts and captions about scenes, written and parsed.

`words` and `references` name things and places; `descriptions` and `sentences` say scenes and operations;
`prompts` joins both. `topics/` and `edits/` hold the templates of requests, `story` the steps behind a
request, `tasks` samples and parses whole tasks, `splits` keeps test tasks out of training.
"""
