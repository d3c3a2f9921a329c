"""Pipelines that are compiled once they have drawn much, and those that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CalledProcessError
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from interleave.local import compile_blocks as compiling
from interleave.local.compile_blocks import CompileLater, compile_blocks, is_large, uncompile


@pytest.fixture
def pipeline() -> SimpleNamespace:
    return SimpleNamespace(transformer=torch.nn.Linear(2, 2))


def is_compiled(pipeline: SimpleNamespace) -> bool:
    return pipeline.transformer._compiled_call_impl is not None


def enough(monkeypatch: pytest.MonkeyPatch, images: int) -> None:
    monkeypatch.setattr(compiling, "COMPILE_AFTER", images)


@pytest.mark.slow
def test_the_first_images_are_drawn_as_they_are_and_many_are_compiled_for(
    pipeline: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 6)
    later = CompileLater(pipeline)
    assert [later.draw(2, lambda: is_compiled(pipeline)) for _ in range(4)] == [False, False, True, True]


def failing(error: Exception, pipeline: SimpleNamespace) -> Callable[[], str]:
    def work() -> str:
        if is_compiled(pipeline):
            raise error
        return "drawn"

    return work


@pytest.mark.parametrize(
    "error",
    [
        BackendCompilerFailed("inductor", RuntimeError("no C compiler found"), None),
        ImportError("no module named triton"),
        FileNotFoundError("gcc"),
        CalledProcessError(1, ["gcc"]),
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_where_nothing_can_be_compiled_images_are_drawn_all_the_same(
    error: Exception,
    pipeline: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    enough(monkeypatch, 1)
    later = CompileLater(pipeline)
    assert [later.draw(1, failing(error, pipeline)) for _ in range(3)] == ["drawn"] * 3
    assert caplog.text.count("the model cannot be compiled") == 1


def test_one_shape_that_cannot_be_compiled_ends_it_for_all(
    pipeline: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 1)
    later = CompileLater(pipeline)
    assert later.draw(1, lambda: is_compiled(pipeline))
    assert later.draw(4, failing(FileNotFoundError("gcc"), pipeline)) == "drawn"
    assert not later.draw(1, lambda: is_compiled(pipeline))


def test_a_pipeline_that_refuses_to_be_compiled_goes_on_drawing(
    pipeline: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**options: object) -> None:
        raise ValueError("no blocks found")

    enough(monkeypatch, 2)
    monkeypatch.setattr(pipeline.transformer, "compile", refuse)
    later = CompileLater(pipeline)
    assert [later.draw(1, lambda: "drawn") for _ in range(4)] == ["drawn"] * 4
    assert caplog.text.count("the model cannot be compiled, continuing uncompiled: no blocks found") == 1


def test_what_fails_for_other_reasons_fails(
    pipeline: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 1)
    later = CompileLater(pipeline)
    with pytest.raises(ValueError, match="a bad prompt"):
        later.draw(1, failing(ValueError("a bad prompt"), pipeline))
    assert is_compiled(pipeline)


def test_a_pipeline_can_be_as_if_it_had_never_been_compiled(pipeline: SimpleNamespace) -> None:
    compile_blocks(pipeline)
    assert is_compiled(pipeline)
    uncompile(pipeline)
    assert not is_compiled(pipeline)


def test_only_large_models_are_worth_it() -> None:
    with torch.device("meta"):
        assert is_large(torch.nn.Linear(40_000, 40_000, bias=False))
        assert not is_large(torch.nn.Linear(10, 10))
