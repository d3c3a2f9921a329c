"""`python -m interleave.service.documents.openapi` prints the API description, for type generators."""

from __future__ import annotations

import json
from typing import Any

from interleave.service.documents.app import DocumentApp
from interleave.service.documents.routes import added_routes


def openapi() -> dict[str, Any]:
    """Return the description of the service with all installed packages."""
    return DocumentApp(added_routes()).openapi()


if __name__ == "__main__":
    print(json.dumps(openapi(), indent=1, sort_keys=True))
