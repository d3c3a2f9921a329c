"""CUDA graphs decode what `generate` decodes; without CUDA the same steps run uncaptured.

Where there is a CUDA device, everything is tested on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from interleave.backends.protocols import Message, Reply
from interleave.backends.registry import load_vlm
from interleave.errors import BackendError
from interleave.local.completions import CompletionRequest
from interleave.local.decoding import Decoder
from interleave.local.qwen3_vl import cuda_graph_decode, kept_prefixes, prefill
from interleave.types import ImagePart, Text

ToyVlm = Callable[[str | None], Path]
Specs = Sequence[tuple[str, int, int]]
"""Words, images, and how many tokens to decode."""

MIXED: Specs = [("a", 2, 40), ("longer and " * 20, 0, 23), ("hm", 1, 8)]


ON_CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="does not apply: no CUDA device")
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
    requests = [
        CompletionRequest(
            (Message("user", (*(_image(number) for number in range(images)), Text(words))),),
            tokens,
            probabilities=True,
            **how,  # type: ignore[arg-type]
        )
        for words, images, tokens in specs
    ]
    replies = decoder.complete(requests)
    assert not [reply for reply in replies if isinstance(reply, BackendError)]
    return replies  # type: ignore[return-value]


def _image(number: int) -> ImagePart:
    return ImagePart(Image.new("RGB", (64 + 32 * number, 64), (50 * number, 90, 200)))


def same(one: Reply, other: Reply) -> bool:
    probs = [[token.probability for token in reply.tokens] for reply in (one, other)]
    return (
        one.text == other.text
        and (one.usage, one.finish_reason) == (other.usage, other.finish_reason)
        and torch.allclose(*map(torch.tensor, probs), rtol=1e-3, atol=1e-6)
    )


@pytest.mark.parametrize("specs", [MIXED[:1], MIXED[1:2], MIXED, MIXED[::-1]])
def test_decode_steps_give_the_tokens_of_generate(decoder: Decoder, specs: Specs) -> None:
    decoded = ask(decoder, specs, static=True)
    assert decoder._graph_decoder is not None and decoder._graph_decoder._steps, "nothing was decoded by it"
    assert all(map(same, decoded, ask(decoder, specs)))


def test_prompts_are_prefilled_a_few_at_a_time(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    together = ask(decoder, MIXED, static=True)
    monkeypatch.setattr(prefill, "PREFILL_TOKENS", 1)
    assert all(map(same, together, ask(decoder, MIXED, static=True)))


def test_a_reply_can_outgrow_its_kv_cache(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graph_decode, "BLOCK_SIZE", 16)
    monkeypatch.setattr(cuda_graph_decode, "BLOCK_MULTIPLE", 1)
    decoder.free_memory()
    for specs in ([MIXED[0]], MIXED, [MIXED[0]]):
        assert all(map(same, ask(decoder, specs, static=True), ask(decoder, specs)))
    assert decoder._graph_decoder is not None
    assert len({blocks for _, blocks, *_ in decoder._graph_decoder._steps}) > 1, "no cache has grown"
    decoder.free_memory()


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_a_reply_ends_with_its_eos_token(toy_vlm: ToyVlm, device: str) -> None:
    (decoded,) = ask(load(toy_vlm("critic"), device), [("judge", 2, 400)], static=True)
    assert decoded.finish_reason == "stop" and decoded.text.endswith("</answer>")


def test_what_is_not_greedy_is_decoded_by_generate(decoder: Decoder) -> None:
    assert decoder._graph_decoder is not None
    decoder.free_memory()
    ask(decoder, MIXED[2:], static=True, temperature=1.0)
    settings = decoder.model.generation_config
    settings.repetition_penalty = 1.5
    try:
        ask(decoder, MIXED[2:], static=True)
    finally:
        settings.repetition_penalty = None
    assert not decoder._graph_decoder._steps


def test_a_changed_model_is_not_supported(toy_vlm: ToyVlm) -> None:
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(toy_vlm(None))
    assert cuda_graph_decode.supports(model)
    layer = model.model.language_model.layers[1]
    layer.self_attn.q_proj = torch.nn.Sequential(layer.self_attn.q_proj)
    assert not cuda_graph_decode.supports(model)


def test_a_decode_step_that_fails_is_not_tried_again(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("no such kernel")

    assert on_cpu._graph_decoder is not None
    monkeypatch.setattr(on_cpu, "_graph_decoder", cuda_graph_decode.CudaGraphDecoder(on_cpu.model))
    monkeypatch.setattr(on_cpu._graph_decoder, "_decode_token", fails)
    assert same(ask(on_cpu, MIXED[:1], static=True)[0], ask(on_cpu, MIXED[:1])[0])
    assert "no such kernel" in caplog.text
    assert on_cpu._graph_decoder is None


SHORT = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def test_a_step_that_runs_out_of_memory_fails_and_the_next_is_tried_again(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*given: object) -> None:
        raise RuntimeError(SHORT)

    monkeypatch.setattr(on_cpu, "_graph_decoder", cuda_graph_decode.CudaGraphDecoder(on_cpu.model))
    with monkeypatch.context() as while_short:
        while_short.setattr(on_cpu._graph_decoder, "_decode_token", short)
        with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
            ask(on_cpu, MIXED[:1], static=True)
    assert on_cpu._graph_decoder is not None, "graph decoding is off for good"
    assert same(ask(on_cpu, MIXED[:1], static=True)[0], ask(on_cpu, MIXED[:1])[0])


def test_a_compiled_step_that_runs_out_of_memory_is_not_taken_for_one_that_cannot_be_compiled(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def short(step: object, state: object) -> None:
        tried.append(step)
        raise RuntimeError(SHORT)

    monkeypatch.setattr(on_cpu, "_graph_decoder", cuda_graph_decode.CudaGraphDecoder(on_cpu.model))
    monkeypatch.setattr(on_cpu._graph_decoder, "_capture", short)
    monkeypatch.setattr(cuda_graph_decode, "can_capture", lambda device: True)
    with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
        ask(on_cpu, MIXED[:1], static=True, compiled=True)
    assert len(tried) == 1


class FakeGraphs:
    """Stands in for CUDA graphs: the calls made while it captures are kept, and made again on replay."""

    def __init__(self, decoder: cuda_graph_decode.CudaGraphDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decode_token, self.replays = decoder._decode_token, 0
        self.capturing: SimpleNamespace | None = None
        stream = SimpleNamespace(wait_stream=lambda other: None)
        monkeypatch.setattr(cuda_graph_decode, "can_capture", lambda device: True)
        monkeypatch.setattr(decoder, "_decode_token", self._call)
        for name, value in {
            "Stream": lambda device: stream,
            "current_stream": lambda: stream,
            "stream": lambda stream: nullcontext(),
            "graph_pool_handle": lambda: 1,
            "CUDAGraph": lambda: SimpleNamespace(replay=None),
            "graph": self._capture,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def _call(self, *given: object) -> None:
        if self.capturing is None:
            self.decode_token(*given)  # type: ignore[arg-type]
        else:
            self.capturing.replay = lambda: self._replay(*given)

    def _replay(self, *given: object) -> None:
        self.replays += 1
        self.decode_token(*given)  # type: ignore[arg-type]

    @contextmanager
    def _capture(self, graph: SimpleNamespace, **how: object) -> Iterator[None]:
        self.capturing = graph
        yield
        self.capturing = None


def test_a_step_is_captured_and_replayed_and_its_trial_runs_change_no_state(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [ask(on_cpu, specs) for specs in (MIXED, MIXED[:1], MIXED)]
    monkeypatch.setattr(cuda_graph_decode, "BLOCK_SIZE", 32)
    monkeypatch.setattr(cuda_graph_decode, "BLOCK_MULTIPLE", 1)  # so that one is captured mid-reply too
    monkeypatch.setattr(on_cpu, "_graph_decoder", cuda_graph_decode.CudaGraphDecoder(on_cpu.model))
    assert on_cpu._graph_decoder is not None
    graphs = FakeGraphs(on_cpu._graph_decoder, monkeypatch)
    for specs, expected in zip((MIXED, MIXED[:1], MIXED), plain, strict=True):
        assert all(map(same, ask(on_cpu, specs, static=True), expected))
    assert graphs.replays == 3 * 40  # forty tokens, the first from the prefill, the others eight at a time


@pytest.mark.slow
def test_compiled_steps_give_the_same_tokens(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    for specs in (MIXED[:1], MIXED, MIXED[1:]):
        assert all(map(same, ask(decoder, specs, static=True, compiled=True), ask(decoder, specs)))
    said = [record for record in caplog.records if record.name.startswith("interleave")]
    assert not said, "steps were not compiled, or not captured"


def attempts(decoder: Decoder, before: int, afters: Sequence[int], **how: bool) -> list[Reply | BackendError]:
    """Verdicts on images that were drawn from the same one, in one batch."""
    pair = [ImagePart(Image.new("RGB", (64, 64), (50 * number, 90, 200))) for number in (before, *afters)]
    requests = [
        CompletionRequest(
            (Message("system", (Text("judge"),)), Message("user", (pair[0], after, Text(f"plan {before}")))),
            24,
            probabilities=True,
            static=True,
            **how,
        )
        for after in pair[1:]
    ]
    return decoder.complete(requests)


def test_what_was_read_before_is_used_and_the_tokens_are_the_same(on_cpu: Decoder) -> None:
    assert on_cpu._graph_decoder is not None
    kept = on_cpu._graph_decoder._kept
    kept.clear()
    kept.found = 0
    for before, afters in ((0, [1]), (0, [2]), (1, [2, 3]), (0, [3, 1]), (1, [4])):
        with_reuse = attempts(on_cpu, before, afters, reuse=True)
        assert all(map(same, with_reuse, attempts(on_cpu, before, afters)))  # type: ignore[arg-type]
    assert kept.found == 1 + 2 + 1, "a prefix was read again"
    assert len(kept) == 2
    on_cpu.free_memory()
    assert not len(kept)


def test_kept_prefixes_are_bounded_and_equal_in_every_pixel(
    on_cpu: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_cpu._graph_decoder is not None
    kept = on_cpu._graph_decoder._kept
    kept.clear()
    monkeypatch.setattr(kept_prefixes, "_checksum", lambda pixels: 7)
    kept.found = 0
    for before in (0, 1, 0):
        assert all(
            map(same, attempts(on_cpu, before, [2], reuse=True), attempts(on_cpu, before, [2]))  # type: ignore[arg-type]
        )
    assert kept.found == 0, "images with one checksum were taken for one another"
    monkeypatch.setattr(kept, "limit", 1)
    attempts(on_cpu, 3, [2], reuse=True)
    assert not len(kept)


def test_prompts_with_fewer_than_two_images_have_no_prefix(on_cpu: Decoder) -> None:
    assert on_cpu._graph_decoder is not None
    on_cpu._graph_decoder._kept.clear()
    assert all(map(same, ask(on_cpu, MIXED[1:], static=True, reuse=True), ask(on_cpu, MIXED[1:])))
    assert not len(on_cpu._graph_decoder._kept)
