"""The miniature's models as ONNX graphs, which `interleave_mini.onnx` runs without torch."""
