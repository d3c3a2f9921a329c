"""Training of the miniature's models from scratch, on data made by the world and its language.

The generator: `generator` runs `autoencoder`, `flow` and `evaluation` on `examples`. The agents:
`agent_model` writes untrained models, `vision_pretrain` pretrains them on `vision_examples`; SFT and GRPO are
the product's.
"""
