"""How the last line of a planner's row is worded, where a whole document was cut or its texts taken away."""

from __future__ import annotations

CONTINUE = (
    "Please continue from here.",
    "Go on with the remaining steps.",
    "This is how it begins. Draw the rest.",
    "What comes next? Finish it.",
    "Draw what happens next, until the end.",
    "Show the steps that are still missing.",
    "Now carry on until it is finished.",
    "Tell the rest of it, step by step.",
)
DESCRIBE = (
    "Describe each picture in one sentence.",
    "Write a caption for every picture.",
    "Tell in words what happens from picture to picture.",
    "Label each step of this sequence.",
    "What happens in these pictures? One sentence for each.",
    "Say in words what each picture shows.",
    "Describe what changes from one picture to the next.",
)
