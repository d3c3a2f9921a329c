"""The run folder of a job, read while its run starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import interleave
from interleave.errors import RunError
from interleave.runs.record import RunRecord
from interleave.service.documents import folders
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import new_job_id


def test_a_journal_that_begins_between_two_looks_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, id_ = Folders(tmp_path), new_job_id()
    read = folders.read_record

    def too_early(folder: Path) -> RunRecord:
        monkeypatch.setattr(folders, "read_record", read)
        interleave.generate("A lake in 1 picture", out=folder, profile="dry-run")
        raise RunError(f"{folder} is not a run folder")

    monkeypatch.setattr(folders, "read_record", too_early)
    record = own.record(id_)
    assert record is not None and record.status == "done"


def test_a_job_whose_run_has_not_started_has_no_record(tmp_path: Path) -> None:
    assert Folders(tmp_path).record(new_job_id()) is None
