"""Graphs whose weights stay in the safetensors files: external data by byte offset, so that none is copied.

The shipped weights are float16. A graph reads them as they are and casts them to float32, which onnxruntime
does once, when it loads the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interleave import ConfigurationError
from interleave_mini.runtime.weight_files import DIGEST_KEY, WeightFile, weights_digest

MAX_INLINE_BYTES = 4096
"""Constants of a graph itself, such as axes and frequencies; anything larger must be a weight."""


@dataclass(frozen=True)
class _Tensor:
    """A tensor of a safetensors file."""

    file: WeightFile
    name: str

    def same_suffix(self, other: str) -> int:
        """Return how many parts two dotted names share at their ends."""
        pairs = zip(reversed(self.name.split(".")), reversed(other.split(".")), strict=False)
        return next((count for count, (one, two) in enumerate(pairs) if one != two), 99)


def link_weights(model: Any, folder: Path) -> Any:
    """Return the ONNX model with its weights replaced by references to the files in `folder`."""
    import onnx

    files = [WeightFile(path) for path in sorted(folder.glob("*.safetensors"))]
    tensors = [_Tensor(file, name) for file in files for name in file.tensors]
    graph, casts, initializers = model.graph, [], []
    for initializer in graph.initializer:
        values = onnx.numpy_helper.to_array(initializer)
        found = _find(initializer.name, values, tensors)
        if found is None:
            if values.nbytes > MAX_INLINE_BYTES:
                raise ConfigurationError(f"{initializer.name!r} is in no safetensors file of {folder}")
            initializers.append(initializer)
            continue
        half = f"{initializer.name}.float16"
        initializers.append(_reference(found, half))
        casts.append(onnx.helper.make_node("Cast", [half], [initializer.name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    for node in nodes:
        del node.metadata_props[:]
        node.doc_string = ""
    for kept in (graph.node, graph.initializer, graph.value_info, graph.metadata_props, model.metadata_props):
        del kept[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    onnx.helper.set_model_props(model, {DIGEST_KEY: weights_digest(folder)})
    return model


def _find(name: str, values: Any, tensors: list[_Tensor]) -> _Tensor | None:
    """Return the tensor with these values; of several, the one whose name ends most like `name`."""
    alike = [
        tensor
        for tensor in tensors
        if tuple(tensor.file.tensors[tensor.name]["shape"]) == values.shape
        and values.dtype == np.float32
        and np.array_equal(tensor.file.read(tensor.name), values)
    ]
    return max(alike, key=lambda tensor: tensor.same_suffix(name), default=None)


def _reference(tensor: _Tensor, name: str) -> Any:
    import onnx

    entry = tensor.file.tensors[tensor.name]
    if entry["dtype"] != "F16":
        raise ConfigurationError(
            f"{tensor.name!r} in {tensor.file.path} has the type {entry['dtype']}: convert the weights with "
            "`interleave mini halve`"
        )
    begin, end = entry["data_offsets"]
    reference = onnx.TensorProto(
        name=name,
        data_type=onnx.TensorProto.FLOAT16,
        dims=entry["shape"],
        data_location=onnx.TensorProto.EXTERNAL,
    )
    places = {
        "location": tensor.file.path.name,
        "offset": tensor.file.data_start + begin,
        "length": end - begin,
    }
    for key, value in places.items():
        reference.external_data.add(key=key, value=str(value))
    return reference
