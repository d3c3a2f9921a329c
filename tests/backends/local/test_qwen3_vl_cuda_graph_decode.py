"""Recorded steps write what `generate` writes; off CUDA the same steps run without being recorded.

Where there is a CUDA device, everything is tried on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from interleave.backends.local.decoding import Decoder, Question
from interleave.backends.protocols import Message, Reply
from interleave.backends.qwen3_vl import cuda_graph_decode as stepping
from interleave.backends.qwen3_vl import prefill as reading
from interleave.backends.registry import load_vlm
from interleave.errors import BackendError
from interleave.types import Picture, Text

ToyVlm = Callable[[str | None], Path]
Specs = Sequence[tuple[str, int, int]]
"""Words, pictures, and how many tokens to write."""

MIXED: Specs = [("a", 2, 40), ("longer and " * 20, 0, 23), ("hm", 1, 8)]


ON_CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
)


def load(folder: Path, device: str) -> Decoder:
    vlm = load_vlm(f"transformers:{folder}?device={device}&dtype=float32", "critic")
    decoder: Decoder = vlm.loaded.decoder  # type: ignore[attr-defined]
    return decoder


@pytest.fixture(params=["cpu", ON_CUDA])
def decoder(request: pytest.FixtureRequest, toy_vlm: ToyVlm) -> Decoder:
    return load(toy_vlm(None), request.param)


@pytest.fixture
def on_cpu(toy_vlm: ToyVlm) -> Decoder:
    return load(toy_vlm(None), "cpu")


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
        and torch.allclose(*map(torch.tensor, chances), rtol=1e-3, atol=1e-6)
    )


@pytest.mark.parametrize("specs", [MIXED[:1], MIXED[1:2], MIXED, MIXED[::-1]])
def test_steps_write_what_generate_writes(decoder: Decoder, specs: Specs) -> None:
    stepped = ask(decoder, specs, static=True)
    assert decoder._stepper is not None and decoder._stepper._steps, "nothing was stepped"
    assert all(map(same, stepped, ask(decoder, specs)))


def test_questions_are_read_a_few_at_a_time(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    together = ask(decoder, MIXED, static=True)
    monkeypatch.setattr(reading, "READ_TOGETHER", 1)
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


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_an_answer_ends_with_its_end(toy_vlm: ToyVlm, device: str) -> None:
    (stepped,) = ask(load(toy_vlm("critic"), device), [("judge", 2, 400)], static=True)
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
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("no such kernel")

    assert on_cpu._stepper is not None
    monkeypatch.setattr(on_cpu, "_stepper", stepping.Stepper(on_cpu.model))
    monkeypatch.setattr(on_cpu._stepper, "_advance", fails)
    assert same(ask(on_cpu, MIXED[:1], static=True)[0], ask(on_cpu, MIXED[:1])[0])
    assert "no such kernel" in caplog.text
    assert on_cpu._stepper is None


SHORT = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def test_a_step_for_which_memory_is_short_fails_and_the_next_is_tried_again(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*given: object) -> None:
        raise RuntimeError(SHORT)

    monkeypatch.setattr(on_cpu, "_stepper", stepping.Stepper(on_cpu.model))
    with monkeypatch.context() as while_short:
        while_short.setattr(on_cpu._stepper, "_advance", short)
        with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
            ask(on_cpu, MIXED[:1], static=True)
    assert on_cpu._stepper is not None, "the model is slow for good"
    assert same(ask(on_cpu, MIXED[:1], static=True)[0], ask(on_cpu, MIXED[:1])[0])


def test_a_compiled_step_for_which_memory_is_short_is_not_taken_for_one_that_cannot_be_compiled(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def short(step: object, marks: object) -> None:
        tried.append(step)
        raise RuntimeError(SHORT)

    monkeypatch.setattr(on_cpu, "_stepper", stepping.Stepper(on_cpu.model))
    monkeypatch.setattr(on_cpu._stepper, "_recorded", short)
    monkeypatch.setattr(stepping, "can_record", lambda device: True)
    with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
        ask(on_cpu, MIXED[:1], static=True, compiled=True)
    assert len(tried) == 1


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
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [ask(on_cpu, specs) for specs in (MIXED, MIXED[:1], MIXED)]
    monkeypatch.setattr(stepping, "PIECE", 32)
    monkeypatch.setattr(stepping, "PIECES_STEP", 1)  # so that one is recorded in the middle of an answer too
    monkeypatch.setattr(on_cpu, "_stepper", stepping.Stepper(on_cpu.model))
    assert on_cpu._stepper is not None
    recorder = Recorder(on_cpu._stepper, monkeypatch)
    for specs, expected in zip((MIXED, MIXED[:1], MIXED), plain, strict=True):
        assert all(map(same, ask(on_cpu, specs, static=True), expected))
    assert recorder.played == 3 * 40  # forty tokens, of which reading gives the first, eight at a time


@pytest.mark.slow
def test_compiled_steps_write_the_same(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    for specs in (MIXED[:1], MIXED, MIXED[1:]):
        assert all(map(same, ask(decoder, specs, static=True, compiled=True), ask(decoder, specs)))
    said = [record for record in caplog.records if record.name.startswith("interleave")]
    assert not said, "steps were not compiled, or not recorded"
