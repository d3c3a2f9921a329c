"""Recorded steps write what `generate` writes; off CUDA the same steps run without being recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from interleave.backends.local import stepping
from interleave.backends.local.decoding import Decoder, Question
from interleave.backends.protocols import Message, Reply
from interleave.backends.registry import load_vlm
from interleave.errors import BackendError
from interleave.types import Picture, Text

ToyVlm = Callable[[str | None], Path]
Specs = Sequence[tuple[str, int, int]]
"""Words, pictures, and how many tokens to write."""

MIXED: Specs = [("a", 2, 40), ("longer and " * 20, 0, 23), ("hm", 1, 8)]


@pytest.fixture
def decoder(toy_vlm: ToyVlm) -> Decoder:
    vlm = load_vlm(f"transformers:{toy_vlm(None)}", "critic")
    decoder: Decoder = vlm.loaded.decoder  # type: ignore[attr-defined]
    return decoder


def ask(decoder: Decoder, specs: Specs, **how: bool | float) -> list[Reply]:
    questions = [
        Question(
            (Message("user", (*(_picture(number) for number in range(pictures)), Text(words))),),
            tokens,
            probabilities=True,
            **how,  # type: ignore[arg-type]
        )
        for words, pictures, tokens in specs
    ]
    replies = decoder.answer(questions)
    assert not [reply for reply in replies if isinstance(reply, BackendError)]
    return replies  # type: ignore[return-value]


def _picture(number: int) -> Picture:
    return Picture(Image.new("RGB", (64 + 32 * number, 64), (50 * number, 90, 200)))


def same(one: Reply, other: Reply) -> bool:
    chances = [[token.probability for token in reply.tokens] for reply in (one, other)]
    return (
        one.text == other.text
        and (one.usage, one.finish_reason) == (other.usage, other.finish_reason)
        and torch.allclose(*map(torch.tensor, chances), atol=1e-6)
    )


@pytest.mark.parametrize("specs", [MIXED[:1], MIXED[1:2], MIXED, MIXED[::-1]])
def test_steps_write_what_generate_writes(decoder: Decoder, specs: Specs) -> None:
    stepped = ask(decoder, specs, static=True)
    assert decoder._stepper is not None and decoder._stepper._steps, "nothing was stepped"
    assert all(map(same, stepped, ask(decoder, specs)))


def test_questions_are_read_a_few_at_a_time(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    together = ask(decoder, MIXED, static=True)
    monkeypatch.setattr(stepping, "READ_TOGETHER", 1)
    assert all(map(same, together, ask(decoder, MIXED, static=True)))


def test_an_answer_can_outgrow_its_cache(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "PIECE", 16)
    monkeypatch.setattr(stepping, "PIECES_STEP", 1)
    decoder.forget()
    for specs in ([MIXED[0]], MIXED, [MIXED[0]]):
        assert all(map(same, ask(decoder, specs, static=True), ask(decoder, specs)))
    assert decoder._stepper is not None
    assert len({pieces for _, pieces, _ in decoder._stepper._steps}) > 1, "no cache has grown"
    decoder.forget()


def test_an_answer_ends_with_its_end(toy_vlm: ToyVlm) -> None:
    vlm = load_vlm(f"transformers:{toy_vlm('critic')}", "critic")
    decoder = vlm.loaded.decoder  # type: ignore[attr-defined]
    (stepped,) = ask(decoder, [("judge", 2, 400)], static=True)
    assert stepped.finish_reason == "stop" and stepped.text.endswith("</answer>")


def test_what_is_not_greedy_is_left_to_generate(decoder: Decoder) -> None:
    assert decoder._stepper is not None
    decoder.forget()
    ask(decoder, MIXED[2:], static=True, temperature=1.0)
    settings = decoder.model.generation_config
    settings.repetition_penalty = 1.5
    try:
        ask(decoder, MIXED[2:], static=True)
    finally:
        settings.repetition_penalty = None
    assert not decoder._stepper._steps


def test_a_changed_model_is_not_stepped_through(toy_vlm: ToyVlm) -> None:
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(toy_vlm(None))
    assert stepping.can_step(model)
    layer = model.model.language_model.layers[1]
    layer.self_attn.q_proj = torch.nn.Sequential(layer.self_attn.q_proj)
    assert not stepping.can_step(model)


def test_a_step_that_fails_is_not_tried_again(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("no such kernel")

    assert decoder._stepper is not None
    monkeypatch.setattr(decoder, "_stepper", stepping.Stepper(decoder.model))
    monkeypatch.setattr(decoder._stepper, "_advance", fails)
    assert same(ask(decoder, MIXED[:1], static=True)[0], ask(decoder, MIXED[:1])[0])
    assert "no such kernel" in caplog.text
    assert decoder._stepper is None


class Recorder:
    """Stands in for CUDA graphs: what is done while it records is kept, and done when it is played."""

    def __init__(self, stepper: stepping.Stepper, monkeypatch: pytest.MonkeyPatch) -> None:
        self.advance, self.played = stepper._advance, 0
        self.recording: SimpleNamespace | None = None
        stream = SimpleNamespace(wait_stream=lambda other: None)
        monkeypatch.setattr(stepping, "can_record", lambda device: True)
        monkeypatch.setattr(stepper, "_advance", self._advanced)
        for name, value in {
            "Stream": lambda device: stream,
            "current_stream": lambda: stream,
            "stream": lambda stream: nullcontext(),
            "graph_pool_handle": lambda: 1,
            "CUDAGraph": lambda: SimpleNamespace(replay=None),
            "graph": self._records,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def _advanced(self, *given: object) -> None:
        if self.recording is None:
            self.advance(*given)  # type: ignore[arg-type]
        else:
            self.recording.replay = lambda: self._play(*given)

    def _play(self, *given: object) -> None:
        self.played += 1
        self.advance(*given)  # type: ignore[arg-type]

    @contextmanager
    def _records(self, graph: SimpleNamespace, **how: object) -> Iterator[None]:
        self.recording = graph
        yield
        self.recording = None


def test_a_step_is_recorded_and_played_without_a_trace_of_its_trials(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [ask(decoder, specs) for specs in (MIXED, MIXED[:1], MIXED)]
    monkeypatch.setattr(stepping, "PIECE", 32)
    monkeypatch.setattr(stepping, "PIECES_STEP", 1)  # so that one is recorded in the middle of an answer too
    monkeypatch.setattr(decoder, "_stepper", stepping.Stepper(decoder.model))
    assert decoder._stepper is not None
    recorder = Recorder(decoder._stepper, monkeypatch)
    for specs, expected in zip((MIXED, MIXED[:1], MIXED), plain, strict=True):
        assert all(map(same, ask(decoder, specs, static=True), expected))
    assert recorder.played == 3 * 40  # forty tokens, of which reading gives the first, eight at a time


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own, when it compiles
def test_compiled_steps_write_the_same(decoder: Decoder) -> None:
    for specs in (MIXED[:1], MIXED, MIXED[1:]):
        assert all(map(same, ask(decoder, specs, static=True, compiled=True), ask(decoder, specs)))
