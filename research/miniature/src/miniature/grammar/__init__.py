"""The grammar of requests: the possible requests in the miniature's world, each with its true answer.

`topics/`, `edits/` and `riddles` hold subjects and their templates. `voices/` has the phrasings of people in
the notation of `phrasings`, sampled and parsed by `natural`, `own_steps` and `edits/plain`. `worked/` has
requests with hand-written plans. `story` builds the steps, `tasks` samples and parses whole tasks.
`language_file` collects what the runtime needs of all this, with the English words of `lexicon/`.
"""
