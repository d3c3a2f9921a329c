"""The miniature's language: requests, prompts and captions about scenes, written and parsed.

`words` and `references` name things and places; `descriptions` and `sentences` say scenes and operations;
`prompts` joins both. `topics/` and `edits/` hold what can be asked for and its templates, `voices/` the words
of people in the notation of `phrasings`, sampled and parsed by `natural`, `own_steps` and `edits/plain`.
`story` has the steps behind a request, `tasks` samples and parses whole tasks, `splits` keeps test tasks out
of training. `vocabulary` and `lexicon/` tell known, mistyped and unknown words apart.
"""
