"""Who said each part of a request: kept beside the parts, which the planner reads as one text with images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interleave.service.documents.jobs import Job
from interleave.service.documents.submissions import InputPart, parts_in

SETTING = "input_roles"
"""Key of the roles in a job's settings; absent if the user said everything."""
ITEM_ROLES = {"image_generation_call": "assistant"}
"""Roles of items that are no messages."""


def parts_with_roles(
    value: list[Any], name: str, read: Callable[[Any, str], list[InputPart]]
) -> tuple[list[InputPart], list[str]]:
    """Return the parts of all messages in order, and the role of each part."""
    roles: list[str] = []

    def read_with_role(message: Any, where: str) -> list[InputPart]:
        parts = read(message, where)
        roles.extend([_role_of(message)] * len(parts))
        return parts

    return parts_in(value, name, read_with_role), roles


def _role_of(message: Any) -> str:
    role = message.get("role") or ITEM_ROLES.get(message.get("type"), "user")
    return "assistant" if role == "model" else str(role)


def setting_of(roles: Sequence[str]) -> dict[str, Any]:
    """Return the setting that keeps these roles, if they say anything."""
    return {SETTING: list(roles)} if set(roles) - {"user"} else {}


def role_in(job: Job, number: int) -> str:
    """Return the role of a part of a job's request."""
    roles = job.settings.get(SETTING, [])
    return str(roles[number]) if number < len(roles) else "user"


def continued(earlier: Job, request_parts: int, all_parts: int) -> list[str]:
    """Return the roles of a document that is continued: those of its request, and then of its answer."""
    asked = [role_in(earlier, number) for number in range(request_parts)]
    return [*asked, *["assistant"] * (all_parts - request_parts)]
