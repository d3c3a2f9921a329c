"""Free-form requests with hand-written plans: `worked/**/*.txt`.

The voices phrase what the topics cover. People also ask for other things, and these examples show how to
plan them. They are for training only. A block is a request, or several wordings of it, followed by the
indented steps: a prompt, and after ` # ` its caption. An optional line `= TOPIC` names the topic.

    the dog ate my cake!
      A room with a brown dog on the left and a pink cake on the right. # A brown dog looks at a pink cake.
      Turn the pink cake into a pink half-eaten cake. # The dog takes a bite: half of the pink cake is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import groupby

from interleave import InputError
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.bench.tasks import Step
from interleave_mini.language.descriptions import parse_description
from interleave_mini.language.sentences import parse_sentence
from interleave_mini.world.operations import Impossible, Operation
from interleave_mini.world.scene import Scene
from miniature.grammar import own_steps
from miniature.grammar.edits.plain import name_of_step

LEARNED = ("worked", "worked/wider")
"""Examples of the first world and of the wider one; the shipped planner was trained on them."""
FOLDERS = (*LEARNED, "worked/newest")
"""The newest were written since. They move to `worked/wider` when a planner trained on them is shipped."""
IMAGE = "a picture"
"""Topic of an example of one image without a named topic."""
_SENTENCE = re.compile(r"(?<=\.)\s+")


@dataclass(frozen=True)
class WorkedExample:
    """A request in one or more wordings, and the prompts and captions of its plan."""

    topic: str
    requests: tuple[str, ...]
    plan: tuple[tuple[str, str], ...]

    def steps(self) -> tuple[Step, ...]:
        """Return the steps; raise `InputError` if a prompt cannot be carried out."""
        return self._carried_out

    @cached_property
    def _carried_out(self) -> tuple[Step, ...]:
        return tuple(_steps(self.plan))


def _steps(plan: tuple[tuple[str, str], ...]) -> Iterator[Step]:
    before: Scene | None = None
    for prompt, caption in plan:
        if before is None:
            before = parse_description(prompt)
            yield Step("The picture" if len(plan) == 1 else "The beginning", caption, before)
            continue
        operations: list[Operation] = []
        name, after = "", before
        for sentence in _SENTENCE.split(prompt):
            for operation in parse_sentence(sentence, after):
                operations.append(operation)
                name, after = name_of_step(operation, after), operation.apply(after)
        if after == before:
            raise Impossible(f"{prompt!r} changes nothing")
        yield Step(name, caption, after, tuple(operations), before)
        before = after


def parse_worked_examples(text: str) -> Iterator[WorkedExample]:
    """Yield the examples of a file."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for filled, block in groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield _parse_block(list(block))


def _parse_block(block: list[str]) -> WorkedExample:
    topic = [line.removeprefix("=").strip() for line in block if line.startswith("=")]
    requests = tuple(line.replace(r"\n", "\n") for line in block if line[0] not in "= \t")
    steps = [line.strip().partition(" # ") for line in block if line[0] in " \t"]
    if not requests or not steps or not all(caption for _, _, caption in steps):
        raise InputError(f"a request, and steps with captions: {block[0]!r}")
    default = IMAGE if len(steps) == 1 else own_steps.SECTION
    return WorkedExample(
        topic[0] if topic else default,
        requests,
        tuple((prompt.strip(), caption.strip()) for prompt, _, caption in steps),
    )


@cache
def worked_examples() -> tuple[WorkedExample, ...]:
    """Return all examples without held-out pairs of kind and colour."""
    return tuple(each for each in parsed_examples(*FOLDERS) if not is_held_out(each.steps()))


def parsed_examples(*folders: str) -> list[WorkedExample]:
    """Return the examples of the text files of some folders, by name."""
    some = (file for folder in folders for file in files(__package__).joinpath(folder).iterdir())
    return [
        example
        for file in sorted(some, key=str)
        if file.name.endswith(".txt")
        for example in parse_worked_examples(file.read_text("utf-8"))
    ]


def is_held_out(steps: Sequence[Step]) -> bool:
    """Return whether an image has a pair of kind and colour that training never sees."""
    return any(has_held_out_pair(step.scene) for step in steps)
