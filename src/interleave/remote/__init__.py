"""Remote models: OpenAI, Gemini, ComfyUI, plain image APIs, and InterleaveThinker's generator servers."""
