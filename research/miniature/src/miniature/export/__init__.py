"""The miniature's models as ONNX graphs, which `interleave_mini.runtime` runs without torch."""
