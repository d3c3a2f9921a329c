"""The miniature: a complete little domain in which the whole product runs offline and every answer is known.

Pictures are drawn by rule from small scenes, requests come from a grammar, and a reader turns any such
picture back into its scene. So plans, pictures and verdicts can be checked exactly, and small models that run
on a CPU can be trained on it. It is a plugin of `interleave`: `plugin.py` and the entry points in
`pyproject.toml` are the only way in, and `interleave` never imports it.

    world/            scenes as values, how they are drawn, operations that change them
    language/         requests, stories and prompts about scenes: written and parsed
    reader/           picture → scene
    requests.py       normalises, checks and parses what a user asks for
    oracle.py         planner, critic and scorer that compute (spec `oracle`)
    backends.py       the learned models (spec `mini`) and the painter that draws by rule (spec `world`)
    request_source.py requests for data collection
    train/  bench/  cli/    training from scratch, the benchmark, the commands `interleave mini …`
    weights/  profiles/  prompts/  recipes/    what ships with it
"""
