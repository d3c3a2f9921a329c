"""The MCP server: tools, resources, tasks and the reading page, over any transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from mcp.server.apps import Apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult, ToolAnnotations

from interleave import __version__
from interleave.service.mcp.api import CURRENT, Api
from interleave.service.mcp.resources import DocumentServer, add_resources
from interleave.service.mcp.tasks import Tasks
from interleave.service.mcp.tools import WAIT_SECONDS, Tools

PAGE = "ui://interleave/reading-page.html"
INSTRUCTIONS = """\
Makes illustrated documents: picture stories, step-by-step guides, sequences of edits. Texts and images come
in order; every image is checked and redrawn if it is wrong.
1. For anything longer than a few images, call plan_document first and show the plan to the user.
2. make_document makes it. While the status is in_progress, call look_at_document again.
3. Look at every image of the result. Repair a wrong one with redraw_step and a better prompt, or
   choose_attempt. Correct texts with edit_words, which is free.
4. Where results of tools are not shown, repeat each step's Markdown image, below its text, as it stands.
5. export_document gives a file. Keep the document's id: it stays valid.
"""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
Tool = Callable[..., Awaitable[CallToolResult]]
ApiOf = Callable[[ServerRequestContext[Any, Any]], Api]


def build_server(
    api_of: ApiOf, *, wait_seconds: float = WAIT_SECONDS, exports: Path | None = None
) -> DocumentServer:
    """Build the server. `api_of` returns the service of a request, with the key of its sender."""
    tools, apps = Tools(wait_seconds=wait_seconds, exports=exports), Apps()
    page = files("interleave.service.mcp").joinpath("reading_page.html").read_text("utf-8")
    apps.add_html_resource(PAGE, page, name="reading-page", title="Reading page", prefers_border=False)
    with_page: list[tuple[Tool, str, ToolAnnotations]] = [
        (tools.make_document, "Make a document", ADDS),
        (tools.look_at_document, "Look at a document", READS),
        (tools.redraw_step, "Redraw a step", ADDS),
        (tools.choose_attempt, "Choose an attempt", ADDS),
        (tools.edit_words, "Edit words", ADDS),
        (tools.undo_change, "Undo a change", ADDS),
    ]
    for tool, title, hints in with_page:
        apps.tool(resource_uri=PAGE, title=title, annotations=hints, structured_output=False)(tool)

    async def with_api(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        token = CURRENT.set(api_of(ctx))
        try:
            return await call_next(ctx)
        finally:
            CURRENT.reset(token)

    server = DocumentServer(
        "interleave",
        title="InterleaveThinker",
        version=__version__,
        instructions=INSTRUCTIONS,
        extensions=[apps, Tasks()],
        middleware=[with_api],
        log_level="WARNING",
    )
    plain: list[tuple[Tool, str, ToolAnnotations]] = [
        (tools.plan_document, "Plan a document", ADDS),
        (tools.stop_document, "Stop a document", ADDS),
        (tools.export_document, "Export a document", READS),
    ]
    for tool, title, hints in plain:
        server.add_tool(tool, title=title, annotations=hints, structured_output=False)
    add_resources(server)
    return server
