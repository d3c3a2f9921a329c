"""The miniature: a complete little domain in which the whole product runs offline and every answer is known.

Images are drawn by rule from small scenes, and a reader turns any such image back into its scene. So
plans, images and verdicts can be checked exactly, and small models were trained on it that run on a CPU.
It is a plugin of `interleave`: `plugin.py` and the entry points in `pyproject.toml` are the only way in.

    plugin.py  backends.py    what it registers, and the learned models (spec `mini`)
    requests.py  plan_check.py    what is done with a request before a model runs, and with the plan after it
    language/         prompts and captions about scenes, written and parsed; the words of requests
    world/            scenes as values, how they are drawn, operations that change them
    reader/           image → scene
    oracle.py  world_painter.py    planner, critic, scorer (spec `oracle`) and painter (`world`) that compute
    bench/  robots/  cli/    the benchmark, the gripper, the commands `bench mini` and `mini …`
    weights/  profiles/  prompts/    what ships with it: models with `language.json`, profiles, prompt pack
"""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""The folder of generator, planner and critic, and of the language that they know."""
