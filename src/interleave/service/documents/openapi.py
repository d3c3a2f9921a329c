"""API description, `/openapi.json`: FastAPI's, with what holds for all routes.

`python -m interleave.service.documents.openapi` prints it, for type generators.
"""

from __future__ import annotations

import json
from typing import Any

from interleave.service.documents.browser_guard import HEADER

Schema = dict[str, Any]
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "google": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
}


def described(schema: Schema) -> Schema:
    """Complete FastAPI's description: API keys, the header of browsers, and errors as JSON everywhere."""
    schema["components"]["securitySchemes"] = KEYS
    schema["security"] = [*({name: []} for name in KEYS), {}]
    for path in schema["paths"].values():
        for method, operation in path.items():
            if method != "get":
                header = {"name": HEADER, "in": "header", "schema": {"type": "string"}}
                operation.setdefault("parameters", []).append(header)
            error = operation["responses"]["default"]
            error["content"] = {"application/json": next(iter(error["content"].values()))}
            for answer in operation["responses"].values():
                for content in answer.get("content", {}).values():
                    if "$ref" in content["schema"]:  # of a stream, which FastAPI also calls a string
                        content["schema"].pop("type", None)
    return schema


def openapi() -> Schema:
    """Return the description of the service with all installed packages."""
    from interleave.service.documents.app import DocumentApp
    from interleave.service.documents.routes import added_routes

    return DocumentApp(added_routes()).openapi()


if __name__ == "__main__":
    print(json.dumps(openapi(), indent=1, sort_keys=True))
