"""Manifests: the same work leaves the same bytes, and damage is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from interleave.errors import InputError
from interleave.train.data.manifest import Manifest, file_digest, manifest_path, read_manifest, write_manifest

MANIFEST = Manifest(
    stage="prompts",
    options={"seed": 7, "source": "mini"},
    inputs={"b.jsonl": "22", "a.jsonl": "11"},
    counts={"requests": 3},
    notes=("2 lines left out",),
)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_manifest(tmp_path / "x.manifest.json", MANIFEST)
    assert read_manifest(tmp_path / "x.manifest.json") == MANIFEST


def test_equal_manifests_are_equal_bytes_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    other = MANIFEST.model_copy(update={"inputs": {"a.jsonl": "11", "b.jsonl": "22"}})
    write_manifest(tmp_path / "one", MANIFEST)
    write_manifest(tmp_path / "two", other)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_manifest_lies_beside_its_file() -> None:
    assert manifest_path(Path("d/requests.jsonl")) == Path("d/requests.manifest.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "damaged"),
        (b'{"options": {}}', "stage"),
        (b'{"stage": "x", "surprise": 1}', "surprise"),
        (b'{"stage": "x", "version": 99}', "newer interleave"),
    ],
)
def test_a_damaged_manifest_is_refused_with_the_reason(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_manifest(tmp_path / "m")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_manifest(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot be read"):
        file_digest(tmp_path / "absent")


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 100_000)
    assert file_digest(tmp_path / "f") == hashlib.sha256(b"abc" * 100_000).hexdigest()
