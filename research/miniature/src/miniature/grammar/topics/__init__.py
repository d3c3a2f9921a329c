"""The subjects of requests: twelve domains of topics with their templates and plots."""

from __future__ import annotations

from miniature.grammar.topics import (
    arrangements,
    building,
    cooking,
    counting,
    drawing,
    events,
    growing,
    images,
    nature,
    patterns,
    robot,
    science,
    stages,
    stories,
    tales,
)
from miniature.grammar.topics.topic import Topic, TopicRequest

DOMAINS: dict[str, tuple[Topic, ...]] = {
    "visual stories": stories.TOPICS,
    "growing and life cycles": (*growing.TOPICS, *stages.TOPICS),
    "cooking": cooking.TOPICS,
    "drawing lessons": drawing.TOPICS,
    "building and tidying": building.TOPICS,
    "robot manipulation": robot.TOPICS,
    "science and seasons": (*science.TOPICS, *nature.TOPICS),
    "patterns and puzzles": patterns.TOPICS,
    "pictures": images.TOPICS,
    "arranging and counting": (*arrangements.TOPICS, *counting.TOPICS),
    "tales": tales.TOPICS,
    "events": events.TOPICS,
}

__all__ = ["DOMAINS", "Topic", "TopicRequest"]
