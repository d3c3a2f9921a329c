"""Models behind an address: OpenAI, Gemini, ComfyUI, plain image APIs, and our own generator servers."""
