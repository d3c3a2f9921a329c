"""What can be asked for: ten domains, and in each of them topics with their templates and plots."""

from __future__ import annotations

from interleave_mini.language.topics import (
    building,
    cooking,
    drawing,
    growing,
    patterns,
    pictures,
    robot,
    science,
    stories,
    tales,
)
from interleave_mini.language.topics.topic import Topic, TopicRequest

DOMAINS: dict[str, tuple[Topic, ...]] = {
    "visual stories": stories.TOPICS,
    "growing and life cycles": growing.TOPICS,
    "cooking": cooking.TOPICS,
    "drawing lessons": drawing.TOPICS,
    "building and tidying": building.TOPICS,
    "robot manipulation": robot.TOPICS,
    "science and seasons": science.TOPICS,
    "patterns and puzzles": patterns.TOPICS,
    "pictures": pictures.TOPICS,
    "tales": tales.TOPICS,
}

__all__ = ["DOMAINS", "Topic", "TopicRequest"]
