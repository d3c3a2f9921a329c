"""Processors, which turn messages and images into tensors, with and without torchvision.

The processors of the Qwen-VL models require a video processor, which requires torchvision. Models get no
videos here, so without torchvision the same processor is built without a video processor.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from interleave import MissingDependency

PROCESSOR_CLASSES = {
    "qwen3_vl": "Qwen3VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen2_vl": "Qwen2VLProcessor",
}
"""Processor class by the model type in a config.json."""
VISION_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}


def load_processor(folder: Path, model_type: str, *, trust_remote_code: bool = False) -> Any:
    """Load the processor of a model folder."""
    from transformers import AutoProcessor

    if model_type in PROCESSOR_CLASSES and not (has_torchvision() and _has_video_config(folder)):
        return load_without_videos(folder, model_type)
    try:
        return AutoProcessor.from_pretrained(
            folder, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except ImportError as error:
        raise MissingDependency(
            f"the processor of {folder} needs a package that is not installed. "
            f"Install it with: pip install torchvision ({str(error).strip().splitlines()[0]})"
        ) from None


def load_without_videos(folder: Path, model_type: str) -> Any:
    """Load the processor of a Qwen-VL model for text and images."""
    from transformers import AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    image_processor = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
    return image_text_processor(model_type, tokenizer, image_processor)


def image_text_processor(model_type: str, tokenizer: Any, image_processor: Any) -> Any:
    """Return a processor of the model's class for text and images, without videos."""
    import transformers
    from transformers.processing_utils import ProcessorMixin

    base = getattr(transformers, PROCESSOR_CLASSES[model_type])

    class ImageTextProcessor(base):  # type: ignore[misc, valid-type]
        # The arguments of __init__ define the parts of a processor, so this one has no video processor.
        def __init__(
            self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None
        ) -> None:
            for name, token in VISION_TOKENS.items():
                setattr(self, name, token)
                setattr(self, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    # A saved processor names the original class, which can load it.
    ImageTextProcessor.__name__ = base.__name__
    ImageTextProcessor.__module__ = base.__module__
    return ImageTextProcessor(image_processor, tokenizer, tokenizer.chat_template)


def _has_video_config(folder: Path) -> bool:
    """Return whether a folder configures a video processor."""
    if (folder / "video_preprocessor_config.json").is_file():
        return True
    config = folder / "processor_config.json"
    return config.is_file() and "video_processor" in json.loads(config.read_bytes())


def has_torchvision() -> bool:
    return importlib.util.find_spec("torchvision") is not None
