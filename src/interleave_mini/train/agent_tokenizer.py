"""The agents' tokenizer: words of the language, and the scaffold of their answers as single tokens.

Planner and critic write the same wire text as the large models do. Most of it is brackets and keys that say
nothing; learned as whole tokens they cost nothing either.
"""

from __future__ import annotations

from random import Random
from typing import Any

from interleave.agents.critic import critic_input
from interleave.agents.replies import render_plan, render_verdict
from interleave.backends.local.train_bpe import byte_level_bpe
from interleave.types import Verdict
from interleave_mini.language.tasks import SUITES, sample_task
from interleave_mini.language.words import CELL_OF, ROWS, capitalised
from interleave_mini.oracle import judge_attempt
from interleave_mini.train.tokenizer import END, PAD, WORDS
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake

SPECIAL = (
    PAD,
    "<|im_start|>",
    END,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
SCAFFOLD = (
    "<think>",
    '</think><answer>{"execution_plan": [{"step_number": ',
    ', "step_name": "',
    '", "instruction": "',
    '", "instruction": null, "prompt": null, "auxiliary_text": "',
    '", "prompt": "',
    '", "prompt": null, "auxiliary_text": "',
    '", "auxiliary_text": "',
    '"}, {"step_number": ',
    '"}]}</answer>',
    '</think><answer>{"previous_step_success": ',
    'true, "refine_prompt": ""}</answer>',
    'false, "refine_prompt": "',
    '"}</answer>',
)
"""What stands between the words of an answer."""
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' -}}
{%- if message['role'] == 'assistant' -%}{{- '=' -}}{%- endif -%}
{%- if message['content'] is string -%}{{- message['content'] -}}
{%- else -%}{%- for part in message['content'] -%}
{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- else -%}{{- part['text'] -}}{%- endif -%}
{%- endfor -%}{%- endif -%}
{{- '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>=' -}}{%- endif -%}
"""
"""Roles need no names here: whoever answers begins with a sign of its own."""


def agent_tokenizer(*, vocabulary: int, samples: int, context: int) -> Any:
    """A token for every common word, position and piece of scaffold; it can write anything."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    core = byte_level_bpe(corpus(samples), words=WORDS, vocabulary=vocabulary)
    core.add_special_tokens(list(SPECIAL))
    pieces = [*SCAFFOLD, *_places()]
    core.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        unk_token=None,
        bos_token=None,
        additional_special_tokens=list(SPECIAL[1:]),
        model_max_length=context,
        chat_template=CHAT_TEMPLATE,
        padding_side="right",
    )


def _places() -> list[str]:
    """Positions, inside a sentence and at its beginning."""
    return [form for words in (*CELL_OF, *ROWS) for form in (f" {words}", capitalised(words))]


def corpus(samples: int) -> list[str]:
    """Requests, plans and verdicts as the agents see and write them."""
    rng = Random("agents")
    texts = []
    for number in range(samples):
        task = sample_task(SUITES[number % len(SUITES)], rng)
        texts += [task.text, render_plan(task.plan())]
        if number % 8 == 0 and not task.text_only:
            texts.append(render_verdict(_a_verdict(task, rng)))
    return texts


def _a_verdict(task: Any, rng: Random) -> Verdict:
    """What the oracle says of a picture that may be wrong."""
    step = rng.choice(task.steps)
    sources = (draw(step.before),) if step.before is not None else ()
    picture = draw(with_mistake(step.scene, rng) if rng.random() < 0.8 else step.scene)
    return judge_attempt(critic_input(step.prompt, step.prompt, sources, picture))
