"""The commands of this package, listed without importing them."""

from interleave.plugin import lazy_command

MODELS = lazy_command(
    "interleave.diagnostics.models:app", "List and check models and prompt packs.", "Models"
)
DOCTOR = lazy_command(
    "interleave.diagnostics.doctor:doctor", "Check the installation and suggest what to install.", "Models"
)
