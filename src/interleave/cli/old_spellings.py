"""Old spellings of commands and options, rewritten before parsing. They are removed in 1.0."""

from __future__ import annotations

from collections.abc import Sequence

from interleave import entry_points
from interleave.cli.lazy_group import Row

COMMANDS = {
    "backends check": "models check",
    "backends": "models list",
    "calibrate": "bench calibrate",
    "mini halve": "mini to-fp16",
    "mini train sight": "mini train vision",
    "prompts": "models prompts",
    "work": "serve worker",
}
OPTIONS = {
    "bench": {"--remedies": "--drift-control", "--run-folder": "--runs"},
    "data": {"--limit": "--items", "--pictures": "--images", "--shown": "--items"},
    "edit": {"--only-step": "--only"},
    "generate": {
        "--no-sheets": "--no-reference-sheets",
        "--remedies": "--drift-control",
        "--sheets": "--reference-sheets",
    },
    "mini closed-loop": {"--errs": "--error-rate", "--max-tries": "--max-attempts"},
    "mini episodes": {"--count": "--episodes"},
    "mini train": {
        "--at-once": "--parallel-stages",
        "--attempts": "--max-attempts",
        "--drawings": "--generated-images",
        "--evaluate": "--eval-items",
        "--examine": "--eval-items",
        "--hold": "--kl-weight",
        "--rate": "--learning-rate",
        "--scouts": "--oversample",
        "--stop-after": "--max-minutes",
        "--strays": "--wrong-step-rate",
    },
    "serve": {"--most-replicas": "--max-replicas", "--on": "--engine"},
}
"""Old options and their new names, by the first words of the command in its current spelling."""
_BENCHMARKS = """comm-continue comm-document editreward-bench editreward-bench-critic editscore-bench
editscore-bench-critic gedit imgedit kris mmrb2-edit mmrb2-edit-critic mmrb2-interleaved opening opening-pairs
rise rise64 ueval viescore vistorybench wise wise-verified"""
BENCHMARKS = frozenset(_BENCHMARKS.split())
"""Names that were commands: `bench NAME STAGE`."""
STAGES = {"all": "run", "run": "generate"} | {each: each for each in ("judge", "score", "report", "export")}
ACTIONS = {
    "--from-step": "redraw",
    "--choose": "choose",
    "--undo": "undo",
    "--branch-from": "branch",
    "--approve": "approve",
    "--plan": "approve",
}
"""Options of `resume` that became actions of `edit RUN`."""
NUMBERED = ("--from-step", "--choose", "--branch-from")
"""Those with a value: a step, or STEP:ATTEMPT."""
_FLAGS = """approve debug dry-run fail-on-forced fixed gallery help hold-plan json json-events keep-going
nearest no-reference-sheets no-sheets no-table no-variants only only-step open quiet redraw reference-sheets
rejudge retry-failed sheets skip-bad undo verbose version"""
FLAGS = frozenset(f"--{name}" for name in _FLAGS.split())
"""Options without a value, of the commands above. The word after any other option is its value."""


def rewrite(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words in the current spelling, and a hint for each change."""
    end = words.index("--") if "--" in words else len(words)
    new, hints = _renamed_command(list(words[:end]))
    options, names = _split(new)
    path = [new[place] for place in names]
    renamed = OPTIONS.get(" ".join(path[:1]), {}) | OPTIONS.get(" ".join(path[:2]), {})
    for place in options:
        option, equals, value = new[place].partition("=")
        if (current := renamed.get(option)) is not None:
            new[place] = f"{current}{equals}{value}"
            hints.append(f"'{option}' is now '{current}'")
    return [*new, *words[end:]], hints


def _split(words: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the positions of options, and of words that are neither options nor their values."""
    options, names, is_value = list[int](), list[int](), False
    for place, word in enumerate(words):
        is_option = not is_value and word.startswith("-") and word != "-"
        if not is_value:
            (options if is_option else names).append(place)
        is_value = is_option and word.startswith("--") and "=" not in word and word not in FLAGS
    return options, names


def _renamed_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words with an old name of a command replaced, and hints."""
    options, names = _split(words)
    path = [words[place] for place in names[:3]]
    if path[:1] == ["resume"] and len(path) == 2:
        return _edit(words, options, names)
    if path[:1] == ["bench"] and len(path) > 1 and _is_benchmark(path[1]):
        stage = path[2] if len(path) > 2 and path[2] in STAGES else None
        old, new = path[: 2 if stage is None else 3], ["bench", STAGES[stage or "all"], path[1]]
    else:
        old = next((path[:n] for n in (3, 2, 1) if " ".join(path[:n]) in COMMANDS), [])
        new = COMMANDS[" ".join(old)].split() if old else []
    if not old:
        return words, []
    first, taken = names[0], names[: len(old)]
    kept = [word for place, word in enumerate(words) if place > first and place not in taken]
    return [*words[:first], *new, *kept], [f"'{' '.join(old)}' is now '{' '.join(new)}'"]


def _is_benchmark(name: str) -> bool:
    """Return whether `bench NAME` ran a benchmark, and not a command that a package brings."""
    point = entry_points.installed("benchmarks").get(name)
    if name in BENCHMARKS or point is None:
        return name in BENCHMARKS
    found = entry_points.load(point, f"the benchmark {name!r}")
    return isinstance(found, type) or not (callable(found) or isinstance(found, Row))


def _edit(words: list[str], options: list[int], names: list[int]) -> tuple[list[str], list[str]]:
    """Return the words of `edit` if a `resume` has an option that steers, and hints."""
    given = {words[place].partition("=")[0]: place for place in reversed(options)}
    option = next((each for each in ACTIONS if each in given), None)
    if option is None:
        return words, []
    place, taken, numbers = given[option], {*names}, list[str]()
    if option in NUMBERED:
        _, equals, value = words[place].partition("=")
        numbers = (value if equals else "".join(words[place + 1 : place + 2])).split(":", 1)
        taken |= {place} if equals else {place, place + 1}
    elif option != "--plan":
        taken.add(place)
    kept = (word for place, word in enumerate(words) if place not in taken)
    new = ["edit", words[names[1]], ACTIONS[option], *numbers, *kept]
    return new, [f"'resume RUN {option}' is now 'edit RUN {ACTIONS[option]}'"]
