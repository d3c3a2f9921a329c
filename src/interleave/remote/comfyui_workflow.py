"""A ComfyUI workflow in API format, and its inputs for the prompt, the seed and the sources.

The prompt replaces `{{prompt}}` in a text, or else the text linked to the `positive` input of a sampler or
guider, whatever its class calls that input. The seed goes into every number called `seed` or `noise_seed`,
or into the number linked to such an input. Sources go into the `LoadImage` nodes in numeric order.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interleave import ConfigurationError
from interleave.plugin import files, read_text

log = logging.getLogger(__name__)

PROMPT = "{{prompt}}"
SEED_INPUTS = ("seed", "noise_seed")
LOADER = "LoadImage"
POSITIVE_INPUTS = ("positive", "cond1", "conditioning")
"""Names of the prompt input: `cond1` in DualCFGGuider, `conditioning` in BasicGuider. Nodes that forward a
negative prompt have a `conditioning` too, so it counts only if the others are missing."""
NEGATIVE_INPUTS = ("negative", "cond2")
NUMBER_INPUTS = ("value", "seed", "noise_seed", "int", "number")
TEXT_INPUTS = ("text", "prompt", "string", "value", "clip_l", "t5xxl")

Input = tuple[str, str]
Graph = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Workflow:
    """A workflow and its inputs for prompt, seed and sources."""

    graph: Graph
    prompts: tuple[Input, ...]
    seeds: tuple[Input, ...]
    loaders: tuple[str, ...]

    def filled(self, prompt: str, seed: int, names: Sequence[str]) -> Graph:
        """Return a copy with these values; the last image is repeated for any remaining loaders."""
        graph = copy.deepcopy(self.graph)
        for node, name in self.prompts:
            held = graph[node]["inputs"].get(name)
            has_placeholder = isinstance(held, str) and PROMPT in held
            graph[node]["inputs"][name] = held.replace(PROMPT, prompt) if has_placeholder else prompt
        for node, name in self.seeds:
            graph[node]["inputs"][name] = seed
        for position, node in enumerate(self.loaders):
            graph[node]["inputs"]["image"] = names[min(position, len(names) - 1)]
        return graph


def read_workflow(path: str, places: Mapping[str, str | None], loaders: tuple[str, ...] | None) -> Workflow:
    """Read a workflow from a file; `loaders=None` means all its `LoadImage` nodes."""
    graph = _read(path)
    prompts = _chosen(graph, places.get("prompt"), path) or _placeholders(graph) or _positive_texts(graph)
    if not prompts:
        raise ConfigurationError(
            f"the workflow {path!r} has no prompt input: write {PROMPT} into its text, "
            "or name the input with ?prompt=NODE.INPUT"
        )
    if loaders is None:
        loaders = tuple(sorted(_of_class(graph, LOADER), key=_by_number))
    for node in loaders:
        if node not in graph:
            raise ConfigurationError(
                f"the workflow {path!r} has no node {node!r}. It has: {_node_list(graph)}"
            )
    seeds = _chosen(graph, places.get("seed"), path) or tuple(_seed_places(graph))
    if not seeds and (linked := _linked_seeds(graph)):
        log.warning(
            "the seed %s of the workflow %r is linked to a node without a number: its images are not "
            "reproducible. Name the input with ?seed=NODE.INPUT",
            linked[0],
            path,
        )
    return Workflow(graph, tuple(prompts), seeds, loaders)


def _read(path: str) -> Graph:
    try:
        value = json.loads(read_text(path))
    except FileNotFoundError:
        raise ConfigurationError(f"the workflow {path!r} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the workflow {path!r} cannot be read ({files.why(error)})") from None
    if isinstance(value, dict) and "nodes" in value and "links" in value:
        raise ConfigurationError(
            f"the workflow {path!r} is in the editor's format: save it again with 'Export (API)'"
        )
    in_api_form = (
        isinstance(value, dict)
        and value
        and all(
            isinstance(node, dict) and "class_type" in node and isinstance(node.get("inputs"), dict)
            for node in value.values()
        )
    )
    if not in_api_form:
        raise ConfigurationError(f"{path!r} is not a ComfyUI workflow in API format: use 'Export (API)'")
    return dict(value)


def _chosen(graph: Graph, place: str | None, path: str) -> tuple[Input, ...]:
    if place is None:
        return ()
    node, _, name = place.partition(".")
    if node not in graph or name not in graph[node]["inputs"]:
        raise ConfigurationError(
            f"the workflow {path!r} has no input {place!r}. Its nodes: {_node_list(graph)}"
        )
    return ((node, name),)


def _placeholders(graph: Graph) -> tuple[Input, ...]:
    return tuple(
        (node, name)
        for node, content in graph.items()
        for name, value in content["inputs"].items()
        if isinstance(value, str) and PROMPT in value
    )


def _positive_texts(graph: Graph) -> tuple[Input, ...]:
    """Return the texts linked to the positive inputs of samplers and guiders."""
    for name in POSITIVE_INPUTS:
        seen: set[str] = set()  # shared, so that no node is visited for two samplers
        starts = [content["inputs"].get(name) for content in graph.values()]
        links = [start[0] for start in starts if _is_link(start)]
        if texts := tuple(place for link in links for place in _linked_texts(graph, link, seen)):
            return texts
    return ()


def _linked_texts(graph: Graph, start: str, seen: set[str]) -> Iterator[Input]:
    """Yield the texts linked to a node; every node is visited once, so cycles are harmless."""
    pending = [start]
    while pending:
        node = pending.pop()
        if node in seen or node not in graph:
            continue
        seen.add(node)
        inputs = graph[node]["inputs"]
        own = [(node, name) for name in TEXT_INPUTS if isinstance(inputs.get(name), str)]
        if own:
            yield from own
            continue
        links = [
            value[0] for name, value in inputs.items() if _is_link(value) and name not in NEGATIVE_INPUTS
        ]
        pending += reversed(links)


def _seed_places(graph: Graph) -> Iterator[Input]:
    """Yield the seed inputs of a workflow, each once, because several samplers may share one number."""
    places = dict[Input, None]()
    for node in graph:
        for name in SEED_INPUTS:
            if (place := _number_place(graph, node, name)) is not None:
                places[place] = None
    yield from places


def _linked_seeds(graph: Graph) -> list[str]:
    return [
        f"{node}.{name}"
        for node, content in graph.items()
        for name in SEED_INPUTS
        if _is_link(content["inputs"].get(name))
    ]


def _number_place(graph: Graph, node: str, name: str) -> Input | None:
    """Return the input that holds the number: this one, or one linked to it."""
    for _ in range(len(graph) + 1):  # links may form a cycle
        value = graph[node]["inputs"].get(name)
        if isinstance(value, int):
            return node, name
        if not _is_link(value) or value[0] not in graph:
            return None
        node = value[0]
        inputs = graph[node]["inputs"]
        following = [each for each in NUMBER_INPUTS if each in inputs]
        if not following:
            return None
        name = following[0]
    return None


def _of_class(graph: Graph, kind: str) -> list[str]:
    return [node for node, content in graph.items() if content["class_type"] == kind]


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _by_number(node: str) -> tuple[int, str]:
    return (int(node), "") if node.isdecimal() and len(node) < 7 else (1_000_000, node)


def _node_list(graph: Graph) -> str:
    named = [f"{node} ({content['class_type']})" for node, content in graph.items()]
    return ", ".join(named[:12]) + (" …" if len(named) > 12 else "")
