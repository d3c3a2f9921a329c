"""The test double `scripted`: a planner and critic without a model.

`scripted:PATH` answers the n-th call of its role in a run with line n of a JSONL file
(`{"text": …, "finish_reason": …}`). `scripted` alone follows a rule: as planner it makes as many steps as the
request names, else four, in chapters where it is asked for those; as critic it rejects every first attempt of
an even step.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from interleave.backends.protocols import Message, Reply, Sampling, Token, VlmCapabilities
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError
from interleave.files import read_bytes, why
from interleave.step_counts import asking_text, first_number, named_step_count, read_chapter_place
from interleave.text import one_line
from interleave.types import Part, Text, Value
from interleave.validation_errors import first_problem

DEFAULT_STEPS = 4
MAX_COUNTED_STEPS = 50
"""A larger number in a request, such as a year, is not a number of steps."""
SCORES = (8, 9)
MAX_SCRIPT_BYTES = 100_000_000

Probability = Annotated[float, Field(ge=0, le=1)]


class Line(Value):
    """One line of a script."""

    text: str
    finish_reason: str = "stop"
    tokens: tuple[tuple[str, Probability], ...] = ()
    """The tokens of the text with their probabilities, to imitate a backend that gives them."""


class ScriptedVlm:
    """A planner, critic or scorer that replies from a script."""

    class Options(BackendOptions):
        """No options of its own."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'scripted' takes a file, not an address")
        self.role = role
        self.path = Path(spec.model) if spec.model else None
        self.lines = _read_script(self.path) if self.path else ()
        self.capabilities = VlmCapabilities(
            token_probabilities=any(line.tokens for line in self.lines),
            knows_its_price=True,
            repeatable=True,
            concurrency=options.concurrency,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        if self.path is None:
            return Reply(self._reply_by_rule(messages, sampling), cost=0.0)
        call = sampling.slot.call
        if call > len(self.lines):
            raise BackendError(
                f"the script {self.path} has {len(self.lines)} lines, "
                f"and call {call} of the {self.role} is past its end"
            )
        line = self.lines[call - 1]
        tokens = tuple(Token(text, probability) for text, probability in line.tokens)
        return Reply(line.text, line.finish_reason, cost=0.0, tokens=tokens)

    def _reply_by_rule(self, messages: Sequence[Message], sampling: Sampling) -> str:
        if self.role == "planner":
            return _plan(next((message.merged for message in messages if message.role == "user"), ()))
        if self.role == "critic":
            return _verdict(sampling.slot.step, sampling.slot.attempt)
        return json.dumps({"score": list(SCORES), "reasoning": "A fixed mark."})


def _plan(parts: Sequence[Part]) -> str:
    """A plan; where a chapter is asked for, that chapter."""
    texts = [part.text if isinstance(part, Text) else None for part in parts]
    place = next((found for text in texts if text and (found := read_chapter_place(text))), None)
    if place is not None:
        texts = _before_place(texts)
    request = "\n".join(text for text in texts if text is not None)  # pictures separate words
    asking = asking_text(texts)
    count = named_step_count(asking) or _counted(asking) or DEFAULT_STEPS
    subject = one_line(request, 60) or "the pictures given"
    steps = [
        {
            "step_number": number,
            "step_name": f"Part {number} of {count}",
            "instruction": f"Part {number} of {count}: {subject}",
            "prompt": subject if number == 1 else f"Add part {number} of {count} to the picture: {subject}",
            "auxiliary_text": None,
        }
        for number in range(1, count + 1)
    ]
    if place is None:
        return _answer(f"The request becomes {count} parts.", {"execution_plan": steps})
    _, first, most = place
    last = min(first + most - 1, count)
    return _answer(
        f"The request becomes {count} parts.",
        {
            "summary": f"Parts 1 to {last} of {count} are there.",
            "finished": last == count,
            "execution_plan": steps[first - 1 : last],
        },
    )


def _before_place(texts: Sequence[str | None]) -> list[str | None]:
    """The texts of a request, without the words about the chapter that follow it."""
    found: list[str | None] = []
    for text in texts:
        if text and (place := text.find("Plan chapter ")) >= 0 and read_chapter_place(text[place:]):
            return [*found, text[:place].strip()]
        found.append(text)
    return found


def _counted(request: str) -> int | None:
    number = first_number(request)
    return number if number is not None and number <= MAX_COUNTED_STEPS else None


def _verdict(step: int, attempt: int) -> str:
    if step % 2 == 0 and attempt == 1:
        refined = f"Add part {step} once more, larger and clearly readable; keep everything else as it is"
        return _answer(
            "The script refuses every first attempt of an even step.",
            {"previous_step_success": False, "refine_prompt": refined},
        )
    return _answer("The script accepts this attempt.", {"previous_step_success": True, "refine_prompt": ""})


def _answer(thinking: str, value: object) -> str:
    # A request may itself contain tags; escaped, they cannot end the answer early.
    body = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f"<think>{thinking}</think><answer>{body}</answer>"


def _read_script(path: Path) -> tuple[Line, ...]:
    try:
        data = read_bytes(path, most_bytes=MAX_SCRIPT_BYTES)
    except FileNotFoundError:
        raise ConfigurationError(
            f"the script {str(path)!r} does not exist: check the path after 'scripted:'"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"the script {str(path)!r} cannot be read ({why(error)})") from None
    rows = data.removeprefix(codecs.BOM_UTF8).rstrip().split(b"\n")
    return tuple(_read_line(row, f"{path}:{number}") for number, row in enumerate(rows, 1))


def _read_line(row: bytes, where: str) -> Line:
    try:
        return Line.model_validate_json(row)
    except ValidationError as error:
        raise ConfigurationError(
            f'{where}: not a script line like {{"text": "…"}} ({first_problem(error)})'
        ) from None
