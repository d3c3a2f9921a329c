"""The miniature's learned models, all called `mini`: its generator, its planner and its critic.

They run on onnxruntime (`runtime/`). With `?runtime=torch`, with an option that only torch has, or if torch
finds a GPU, the same weights run in the diffusers and transformers backends of `interleave.local`.
What computes by rule, without a model, is in `oracle.py` (planner, critic, scorer) and `world_painter.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from interleave import (
    ConfigurationError,
    ImageGenerator,
    ImageRequest,
    Message,
    MissingDependency,
    Reply,
    Sampling,
    VisionLanguageModel,
)
from interleave.local.backends import NEEDS
from interleave.local.options import DiffusersOptions, LocalOptions, TransformersOptions
from interleave.plugin import Spec, entry_points
from interleave_mini import WEIGHTS
from interleave_mini.plan_audit import PlanAudit
from interleave_mini.requests import PlanCheck

if TYPE_CHECKING:
    from PIL.Image import Image

ROLES = ("planner", "critic")
Runtime = Literal["auto", "onnx", "torch"]
ONNX_OPTIONS = {
    *("runtime", "samples", "check", "batch", "concurrency", "timeout"),
    *("steps", "size", "width", "height", "shape", "prompt_tokens", "guidance"),
    *("temperature", "top_p", "top_k", "seed", "max_pixels"),
}
"""Options that both runtimes take. `guidance` changes nothing in a distilled model."""
CPU_VALUES = {"device": ("auto", "cpu"), "dtype": ("auto", "float32")}
"""Values of options with which onnxruntime computes too."""
NVIDIA_DEVICE = Path("/dev/nvidiactl")


class MiniGenerator:
    """The image model in this package."""

    class Options(DiffusersOptions):
        runtime: Runtime = "auto"
        """`onnx`, `torch`, or `auto`: torch for what only it can do, such as GPUs and LoRA, else onnx."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        _refuse_names(spec, "diffusers")
        self.backend: ImageGenerator
        if choose_runtime(options, options.runtime) == "onnx":
            from interleave_mini.runtime.generator import OnnxGenerator

            self.backend = OnnxGenerator(WEIGHTS / "generator", options)
        else:
            from interleave.local.diffusers_generator import DiffusersGenerator

            self.backend = DiffusersGenerator(
                spec=replace(spec, model=str(WEIGHTS / "generator")), options=options
            )
        self.capabilities = self.backend.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        return await self.backend.generate(request)


class MiniAgent:
    """The planner or the critic in this package."""

    class Options(TransformersOptions):
        runtime: Runtime = "auto"
        """`onnx`, `torch`, or `auto`: torch for what only it can do, such as GPUs and LoRA, else onnx."""
        samples: int = Field(default=0, ge=0, le=64)
        """Plans to sample and vote on if the first does not fit the request. 0: ask back at once."""
        check: bool = True
        """Whether plans are compared with their requests by rule. Without it, every plan is drawn."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        _refuse_names(spec, "transformers")
        if role not in ROLES:
            raise ConfigurationError(
                f"'mini' is no {role}: it plans and judges; the miniature's scorer is 'oracle'"
            )
        self.backend = _model(role, spec, options)
        self.capabilities = self.backend.capabilities
        audit = PlanAudit(lambda: _model("critic", spec, options))
        self.plan_check = PlanCheck(options.samples, audit) if options.check else None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return await self.backend.complete(messages, sampling)


def _model(role: str, spec: Spec, options: MiniAgent.Options) -> VisionLanguageModel:
    """Return the planner or the critic, loaded once for all specs."""
    if choose_runtime(options, options.runtime) == "onnx":
        from interleave_mini.runtime.agent import OnnxAgent

        return OnnxAgent(WEIGHTS / role, options)
    from interleave.local.transformers_vlm import TransformersVlm

    if options.compile is None:  # compiling takes longer than many documents do
        options = options.model_copy(update={"compile": False})
    return TransformersVlm(spec=replace(spec, model=str(WEIGHTS / role)), options=options)


def choose_runtime(options: LocalOptions, wanted: Runtime) -> Literal["onnx", "torch"]:
    """Return the runtime for these options; refuses options that the wanted one does not have."""
    only_torch = _only_torch(options)
    if wanted == "onnx" and only_torch:
        raise ConfigurationError(f"?{only_torch[0]}= needs torch: leave out it or ?runtime=onnx")
    if wanted == "onnx" or (wanted == "auto" and not only_torch and not _has_gpu(options)):
        return "onnx"
    missing = [package for package in NEEDS if not entry_points.is_importable(package)]
    if missing:
        option = only_torch[0] if only_torch else "runtime"
        raise MissingDependency(
            f"?{option}= of 'mini' needs the package {missing[0]!r}, which is not installed. "
            'Install it with: pip install "interleavethinker[local]"'
        )
    return "torch"


def _only_torch(options: LocalOptions) -> list[str]:
    """Return the names of options that are set and that onnxruntime does not have."""
    fields: Collection[str] = type(options).model_fields
    return [
        name
        for name in fields
        if name in options.model_fields_set
        and name not in ONNX_OPTIONS
        and getattr(options, name) not in CPU_VALUES.get(name, ())
    ]


def _has_gpu(options: LocalOptions) -> bool:
    """Return whether torch is installed and finds a GPU; imports torch only if there may be one."""
    if options.device == "cpu" or not NVIDIA_DEVICE.exists():
        return False
    if not all(entry_points.is_importable(package) for package in NEEDS):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _refuse_names(spec: Spec, backend: str) -> None:
    if spec.model or spec.base_url:
        raise ConfigurationError(
            f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
            f"a model of your own is '{backend}:./folder'"
        )
