"""Registry rows of this room's backends, named by the entry points in `pyproject.toml`; cheap to import."""

from __future__ import annotations

from functools import partial

from interleave import BackendInfo

_row = partial(BackendInfo, extra="api", light=True, asks="interleave.remote.permissions:asked_of")

OPENAI_IMAGES = _row(
    "interleave.remote.openai_images:OpenAIImagesGenerator",
    "OpenAI's image models, and compatible servers: SGLang-Diffusion, vLLM-Omni",
    needs=("openai", "httpx2"),
    key="OPENAI_API_KEY",
)
GEMINI_IMAGES = _row(
    "interleave.remote.gemini_images:GeminiGenerator",
    "Google's image models: Nano Banana, Nano Banana Pro",
    needs=("google.genai", "httpx2"),
    key="GEMINI_API_KEY",
)
HTTP = _row(
    "interleave.remote.http_generator:HttpGenerator",
    "services with the /edit and /generate API: http://host:8011[,http://…] or http:./FILE",
    needs=("httpx2",),
)
JSON = _row(
    "interleave.remote.json_api:JsonApiGenerator",
    "a plain image API described by a file: json:./FILE.toml@http://host:9000, json:automatic1111",
    needs=("httpx2",),
)
COMFYUI = _row(
    "interleave.remote.comfyui:ComfyUIGenerator",
    "your workflow on a ComfyUI server: comfyui:WORKFLOW.json@http://host:8188",
    needs=("httpx2",),
)
DOCUMENT = _row(
    "interleave.remote.documents:DocumentApi",
    "native systems: document:gemini:MODEL, document:openai:MODEL, document:chat:MODEL@URL",
    needs=("openai", "google.genai", "httpx2"),
    writes=True,
)
OPENAI = _row(
    "interleave.remote.openai_vlm:OpenAIVlm",
    "chat completions of OpenAI, Azure, vLLM, SGLang, Ollama, OpenRouter and so on",
    needs=("openai", "httpx2"),
    key="OPENAI_API_KEY",
)
GEMINI = _row(
    "interleave.remote.gemini_vlm:GeminiVlm",
    "Google's Gemini models",
    needs=("google.genai", "httpx2"),
    key="GEMINI_API_KEY",
)
