"""How the users of the planner's rows word their wishes: to go on, to describe pictures, to ask about them.

The wordings here are for real data. A prompt pack made for a small model with a vocabulary of its own brings
others, in a file `wordings.toml` beside its texts; the file is no part of the pack's digest, as no model in
use is asked with it.
"""

from __future__ import annotations

import tomllib
from functools import cache

from pydantic import ValidationError

from interleave import ConfigurationError
from interleave.plugin import Value, agents, files, first_problem, read_text

FILE_NAME = "wordings.toml"


class Wordings(Value):
    """The wordings of one prompt pack; a row draws one of each by its id."""

    separator: str = " "
    """Between the texts and pictures of a request that is put together from parts."""
    cut_with_pictures: bool = True
    """Whether documents that begin with pictures of the user are cut."""
    go_on: tuple[str, ...] = (
        "Please continue from here.",
        "Go on with the remaining steps.",
        "What comes next? Finish it.",
        "Show the steps that are still missing.",
        "This is as far as I got. Show me how it goes on, with pictures.",
        "Continue the sequence until the goal is reached.",
        "Can you complete this? Keep the style of the pictures.",
        "Generate the rest, one picture for each step, with a short text.",
        "I have done this much. What do I do now?",
        "Carry on from the last picture, step by step.",
        "Complete the guide above, both in words and in pictures.",
        "How does it end? Draw everything that follows.",
        "Pick up where the last image leaves off and finish the task.",
        "The beginning is given; plan and illustrate what remains.",
        "Next steps, please, up to the finished result.",
        "Extend this into a complete tutorial.",
    )
    go_on_for: tuple[str, ...] = (
        "Show the remaining {steps}.",
        "Please continue in {steps}.",
        "Go on: I need {steps} to finish it.",
        "Complete it in exactly {steps}.",
        "Plan the next {steps} and draw them.",
    )
    """With the number of steps that are left, for requests that name how many there are in all."""
    describe: tuple[str, ...] = (
        "Describe each picture in one sentence.",
        "Write a caption for every picture.",
        "Tell in words what happens from picture to picture.",
        "Label each step of this sequence.",
        "What happens in these pictures? One sentence for each.",
        "Say in words what each picture shows.",
        "Describe what changes from one picture to the next.",
        "These pictures show a task being done. List its sub-tasks in order, one for each picture.",
        "Annotate this sequence: a short instruction for every image.",
        "Turn these images into written instructions, one step per image.",
        "Which action does each image show? Answer image by image.",
    )
    ask_step: tuple[str, ...] = (
        "What happens in picture {number}?",
        "Explain picture {number} of this sequence.",
        "Which step does image {number} show?",
    )
    ask_place: tuple[str, ...] = (
        "Which of these pictures shows this: {text}",
        "In which picture can one see the following? {text}",
    )
    ask_next: tuple[str, ...] = (
        "What has to be done after picture {number}?",
        "Which step follows the one in picture {number}?",
    )


@cache
def wordings_of(pack: str) -> Wordings:
    """The wordings for a prompt pack: its own, or those for real data."""
    folder = agents.pack_folders().get(pack)
    path = folder / FILE_NAME if folder else None
    if path is None or not path.is_file():
        return Wordings()
    try:
        return Wordings.model_validate(files.parse_toml(read_text(path)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {first_problem(error)}") from None
