"""The grammar of requests: what can be asked for in the miniature's world, and the one true answer.

`topics/`, `edits/` and `riddles` hold what can be asked for and its templates, `voices/` the words of people
in the notation of `phrasings`, sampled and parsed by `natural`, `own_steps` and `edits/plain`; `worked/` has
requests with plans written out. `story` tells the steps, `tasks` samples and parses whole tasks.
`language_file` gathers what the runtime knows of all this, with the English words of `lexicon/`.
"""
