"""The miniature's models on onnxruntime and numpy, without torch.

    weight_files.py  sessions.py    safetensors files, and the graphs that read their weights from them
    bpe.py  chat.py  patches.py     text ↔ tokens; messages → tokens; images → patches with their positions
    decoder.py  sampling.py         prefill and decoding with a KV cache; the choice of a token
    agent.py                        planner and critic: a backend with a queue of calls
    noise.py  image_model.py        torch's noise for a seed; FLUX.2 klein from prompt to pixels
    generator.py                    the image generator: a backend with a queue of calls

The research package exports the graphs (`interleave mini onnx`); a test compares their output with torch's.
"""
