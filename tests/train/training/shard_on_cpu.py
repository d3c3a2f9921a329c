"""`python -m shard_on_cpu …` is `interleave …` with weights divided among processes on a CPU, over gloo.

accelerate divides weights, by FSDP or DeepSpeed, among the processes of every kind of device except the CPU,
although torch and DeepSpeed can. Its state is set here as it sets it for the others; all the rest, and the
launch file that is read, are as on GPUs.
"""

from __future__ import annotations

import os
from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

_start_processes = PartialState.__init__
_choose_backend = PartialState._prepare_backend
_start_state = AcceleratorState.__init__


def _wanted(kind: str) -> bool:
    return os.environ.get(f"ACCELERATE_USE_{kind}") == "true"


def _with_deepspeed(state: PartialState, cpu: bool = False, **options: Any) -> None:
    if _wanted("DEEPSPEED"):
        cpu = False  # it is passed over on what accelerate calls a CPU
        options.pop("backend", None)
    _start_processes(state, cpu, **options)


def _over_gloo(state: PartialState, *arguments: Any) -> Any:
    if _wanted("DEEPSPEED"):
        return "gloo", DistributedType.MULTI_CPU
    return _choose_backend(state, *arguments)


def _with_fsdp(state: AcceleratorState, *arguments: Any, fsdp_plugin: Any = None, **options: Any) -> None:
    _start_state(state, *arguments, fsdp_plugin=fsdp_plugin, **options)
    on_cpus = state.distributed_type is DistributedType.MULTI_CPU
    if _wanted("FSDP") and fsdp_plugin is not None and on_cpus:
        state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin = fsdp_plugin
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP


def main() -> None:
    PartialState.__init__ = _with_deepspeed
    PartialState._prepare_backend = _over_gloo
    AcceleratorState.__init__ = _with_fsdp
    from interleave.cli.main import main as interleave

    interleave()


if __name__ == "__main__":
    main()
