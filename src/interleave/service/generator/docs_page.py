"""`/docs`: a page made from the API's description.

FastAPI's page loads its scripts from another site. This page has no scripts and loads nothing.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CODE, _MARKED = re.compile("`(.+?)`"), r"<code>\1</code>"


def docs_page(description: dict[str, Any]) -> str:
    """Return the description as an HTML page."""
    paths, types = description["paths"], description["components"]["schemas"]
    return _PAGE.format(
        post="".join(
            _post_section(path, routes["post"], types) for path, routes in paths.items() if "post" in routes
        ),
        get="".join(
            f"<tr><td><code>GET {escape(path)}</code></td><td>{escape(routes['get']['summary'])}</td></tr>"
            for path, routes in paths.items()
            if "get" in routes
        ),
    )


def _post_section(path: str, route: dict[str, Any], types: dict[str, Any]) -> str:
    ((kind, content),) = route["requestBody"]["content"].items()
    body = types[content["schema"]["$ref"].rpartition("/")[2]]
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{schema['type']}</td>"
        f"<td>{_CODE.sub(_MARKED, escape(schema['description']))}</td></tr>"
        for name, schema in body["properties"].items()
    )
    return (
        f"<h2><code>POST {escape(path)}</code></h2><p>{escape(route['summary'])}. "
        f"The body is <code>{escape(kind)}</code>; only <code>prompt</code> is required.</p>"
        f"<table><tr><th>parameter</th><th>type</th><th></th></tr>{rows}</table>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>interleave generator server</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 2rem }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0 }}
tr {{ border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent) }}
td:first-child {{ white-space: nowrap }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 .3rem }}
@media (max-width: 36rem) {{ td:first-child {{ white-space: normal; overflow-wrap: anywhere }} }}
</style></head><body>
<h1>interleave generator server</h1>
<p>The server applies each parameter, or refuses the request with the reason. <code>/status</code> lists the
generator's settings, and under <code>capabilities.request_settings</code> those a request may change.
OpenAPI description: <a href="openapi.json">openapi.json</a>.</p>
{post}
<h2>GET routes</h2>
<table>{get}</table>
</body></html>
"""
