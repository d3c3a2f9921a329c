"""WGO-Bench's measures, on cases that can be counted by hand."""

from __future__ import annotations

import pytest

from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.measures import count_episode, overlap, same_words, score_annotations
from interleave.robots.video_segments import Segment


def episode(number: int, *segments: tuple[int, int, str], fps: float = 10.0) -> EpisodeAnnotation:
    made = tuple(Segment(start=start, end=end, instruction=said) for start, end, said in segments)
    return EpisodeAnnotation(episode=number, frames=made[-1].end, fps=fps, segments=made)


TRUE = episode(0, (0, 40, "pick up the cup"), (40, 100, "put the cup on the shelf"))


def test_the_truth_scores_one() -> None:
    scores = score_annotations({0: TRUE}, {0: TRUE})
    assert scores.segment_f1.value == scores.end_to_end_f1.value == scores.label_accuracy.value == 1.0
    assert scores.boundary_error == 0.0
    assert scores.boundaries_within[0.25] == 1.0


def test_pairs_need_three_quarters_of_overlap_and_each_fits_once() -> None:
    found = episode(0, (0, 32, "pick up the cup"), (32, 60, "wave"), (60, 100, "put the cup away"))
    counts = count_episode(found.segments, TRUE)
    assert overlap(found.segments[0], TRUE.segments[0]) == pytest.approx(0.8)
    assert (counts.found, counts.true, counts.fitting, counts.agreeing) == (3, 2, 1, 1)
    assert counts.fits_loosely == 2
    assert counts.distances == (0.8,)
    scores = score_annotations({0: found}, {0: TRUE})
    assert scores.segment_f1.value == pytest.approx(2 * 1 / (3 + 2))
    assert scores.boundaries_within == {0.25: 0.0, 0.5: 0.0, 1.0: 1.0, 2.0: 1.0}


def test_a_wrong_name_counts_in_time_and_not_end_to_end() -> None:
    found = episode(0, (0, 40, "pick up the pen"), (40, 100, "Puts the cup on the shelf."))
    scores = score_annotations({0: found}, {0: TRUE})
    assert scores.segment_f1.value == 1.0
    assert scores.label_accuracy.value == 0.5
    assert scores.end_to_end_f1.value == 0.5


def test_an_episode_without_annotation_is_all_missed() -> None:
    other = episode(1, (0, 50, "open the door"), (50, 60, "close it"))
    scores = score_annotations({0: TRUE}, {0: TRUE, 1: other})
    assert scores.missing == 1
    assert scores.segment_f1.value == pytest.approx(2 * 2 / (2 + 4))
    assert scores.boundaries_within[2.0] == 0.5
    assert scores.segment_f1.low < scores.segment_f1.value <= scores.segment_f1.high


def test_words_are_compared_without_articles_and_endings() -> None:
    assert same_words("The gripper picks up the red block.", "pick up red block")
    assert not same_words("pick up the red block", "pick up the blue block")
