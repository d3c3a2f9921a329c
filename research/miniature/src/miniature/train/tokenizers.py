"""The two tokenizers, byte-level BPE trained on the language: the generator's and the agents'.

Planner and critic write the same wire format as large models. Most of it is brackets and keys without
information; as single tokens (`SCAFFOLD`) they cost little to learn and to write.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

from interleave import Verdict
from interleave.local.train_bpe import byte_level_bpe
from interleave.plugin import agents, critic_input
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.language.words import ALL_BACKGROUND_OF_PHRASE, CELL_OF, ROWS, capitalised, plural
from interleave_mini.oracle import judge_attempt
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake
from interleave_mini.world.wider import ALL_COLOURS, ALL_NOUNS
from miniature.grammar.tasks import sample_task
from miniature.grammar.worked_examples import worked_examples
from miniature.train.composed_requests import sample_composed_request
from miniature.train.examples import sample_example

PAD, END = "<|endoftext|>", "<|im_end|>"
PLAIN_TEMPLATE = "{%- for message in messages -%}{{- message['content'] -}}{%- endfor -%}"
"""Chat template of the prompt alone: further tokens would cost attention without information."""
WORDS = r" ?\p{L}+(?:[-'’]\p{L}+)*| ?\p{N}| ?[^\s\p{L}\p{N}]|\s+"
_A_WORD = re.compile(r" ?[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_VOCABULARY = 1664
_SAMPLES = 4000
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
"""Fixed parts of a reply, each a single token."""
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
"""Chat template without role names: a reply begins with “=”."""


def generator_tokenizer(*, vocabulary: int = _VOCABULARY, samples: int = _SAMPLES) -> Any:
    """Train a tokenizer with a token for every common word of the language; it can encode any text.

    Not a `Qwen2Tokenizer`: on loading, that class would replace the pre-tokenizer.
    """
    from transformers import PreTrainedTokenizerFast

    core = byte_level_bpe(_generator_corpus(samples), words=WORDS, vocabulary=vocabulary)
    core.add_special_tokens([PAD, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        unk_token=None,
        bos_token=None,
        chat_template=PLAIN_TEMPLATE,
        padding_side="right",
    )


def grown_tokenizer(tokenizer: Any, words: Iterable[str]) -> tuple[Any, dict[int, list[int]]]:
    """Return the tokenizer with a token for each of these words, and the old tokens of every new one."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    content, pieces_of = grown_content(tokenizer, words)
    grown = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(content),
        eos_token=END,
        pad_token=PAD,
        unk_token=None,
        bos_token=None,
        chat_template=PLAIN_TEMPLATE,
        padding_side="right",
    )
    return grown, pieces_of


def grown_content(tokenizer: Any, words: Iterable[str]) -> tuple[str, dict[int, list[int]]]:
    """Return the file `tokenizer.json` with a token for each of these words, and the old tokens of new ones.

    Old tokens keep their numbers. New merges are the last, so that they only join what was in pieces.
    """
    core = tokenizer.backend_tokenizer
    content = json.loads(core.to_str())
    content["truncation"] = content["padding"] = None
    vocabulary, merges = content["model"]["vocab"], content["model"]["merges"]
    vocabulary |= {token["content"]: token["id"] for token in content["added_tokens"]}
    next_number = max(vocabulary.values()) + 1
    ranks: dict[tuple[str, str], int] = {}
    pieces_of: dict[str, list[int]] = {}
    for word in words:
        first, *rest = _merged(core.encode(word, add_special_tokens=False).tokens, ranks)
        for piece in rest:
            ranks[first, piece] = len(ranks)
            merges.append([first, piece])
            pieces_of[first + piece] = [
                number for each in (first, piece) for number in pieces_of.get(each, [vocabulary[each]])
            ]
            first += piece
            if first not in vocabulary:
                vocabulary[first], next_number = next_number, next_number + 1
    numbers = {vocabulary[token]: pieces for token, pieces in pieces_of.items()}
    return json.dumps(content, ensure_ascii=False), numbers


def _merged(pieces: list[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Join pieces as the merges with these ranks do, the lowest first."""
    while pairs := [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]:
        _, at = min(pairs)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def words_of_the_examples(minimum: int = 7, composed: int = 6000) -> list[str]:
    """Return the words that worked examples, or this number of composed requests, have `minimum` times."""
    counts: Counter[str] = Counter()
    for example in worked_examples():
        texts = [f" {request}" for request in example.requests]  # they follow “Plan: ”
        texts += [text for step in example.plan for text in step]
        counts.update(word for text in texts for word in _A_WORD.findall(text))
    rng, others = Random("words"), Counter[str]()
    for _ in range(composed):
        _, request, steps = sample_composed_request(rng)
        texts = [f" {request}", *(text for step in steps for text in (step.prompt, step.caption))]
        others.update(word for text in texts for word in _A_WORD.findall(text))
    counts |= others  # the larger of both numbers
    return [word for word, count in counts.most_common() if count >= minimum]


def words_of_the_world() -> list[str]:
    """Return the words of prompts about the whole world, within and at the start of a sentence."""
    phrases = (*ALL_NOUNS, *map(plural, ALL_NOUNS), *ALL_COLOURS, *ALL_BACKGROUND_OF_PHRASE)
    words = dict.fromkeys(word for phrase in phrases for word in phrase.split())
    verbs = (
        "put",
        "give",
        "place",
        "held",
        "now",
        "night",
        "day",
        "falls",
        "breaks",
        "gets",
        "dark",
        "light",
    )
    starts = [form for word in ("Put", "Give", "Place", "Night", "Day") for form in (word, f" {word}")]
    return [*(f" {word}" for word in (*words, *verbs)), *starts]


def _generator_corpus(samples: int) -> list[str]:
    """Yield prompts as in training, and requests, which a system without a planner sends unchanged."""
    rng = Random("tokenizer")
    prompts = [sample_example(rng).prompt for _ in range(samples)]
    requests = [sample_task(suite, rng).text for suite in SUITES[:4] for _ in range(samples // 16)]
    return prompts + requests


def agent_tokenizer(*, vocabulary: int, samples: int, context: int) -> Any:
    """Train a tokenizer with a token for every common word, position and part of the scaffold."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    core = byte_level_bpe(agent_corpus(samples), words=WORDS, vocabulary=vocabulary)
    core.add_special_tokens(list(SPECIAL))
    tokens = [*SCAFFOLD, *_places()]
    core.add_tokens([AddedToken(token, normalized=False, special=False) for token in tokens])
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
    """Return the positions, inside a sentence and at its beginning."""
    return [form for words in (*CELL_OF, *ROWS) for form in (f" {words}", capitalised(words))]


def agent_corpus(samples: int) -> list[str]:
    """Yield requests, plans and verdicts as the agents see and write them."""
    rng = Random("agents")
    texts = []
    for number in range(samples):
        task = sample_task(SUITES[number % len(SUITES)], rng)
        texts += [task.text, agents.render_plan(task.plan())]
        if number % 8 == 0 and not task.text_only:
            texts.append(agents.render_verdict(_sample_verdict(task, rng)))
    return texts


def _sample_verdict(task: Task, rng: Random) -> Verdict:
    """Return the oracle's verdict on an image that may be wrong."""
    step = rng.choice(task.steps)
    sources = (draw(step.before),) if step.before is not None else ()
    image = draw(with_mistake(step.scene, rng) if rng.random() < 0.8 else step.scene)
    return judge_attempt(critic_input(step.prompt, step.prompt, sources, image))
