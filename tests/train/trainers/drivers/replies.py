"""Replies of a critic, in the form that the reward asks for."""

from __future__ import annotations

import json

REPLY = '<think>It is wrong.</think><answer>{"previous_step_success": %s, "refine_prompt": %s}</answer>'
ACCEPTS = REPLY % ("true", '""')


def refusal(prompt: str) -> str:
    return REPLY % ("false", json.dumps(prompt))
