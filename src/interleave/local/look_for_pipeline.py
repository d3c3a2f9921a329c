"""Find the pipeline of a spec without loading it: no weights are read, and torch is not imported."""

from __future__ import annotations

from interleave import ConfigurationError
from interleave.local.checkpoints import Source, check_pipeline, pipeline_index
from interleave.local.families import family_of
from interleave.plugin import Spec


def look_for_pipeline(spec: Spec) -> None:
    """Raise `ConfigurationError` if the model is neither on disk nor on the Hub, or cannot be used.

    From the Hub only the index is fetched. A folder gets the same checks as before loading.
    """
    if not spec.model:
        raise ConfigurationError(f"{str(spec)!r} names no model")
    source = Source(spec.model, spec.options.get("revision"))
    path, index = pipeline_index(source)
    family_of(str(index.get("_class_name"))).require_code()
    if source.is_path:
        trusted = spec.options.get("trust_remote_code", "").lower() in ("1", "true", "yes", "on")
        check_pipeline(path, source, trust_remote_code=trusted)
