"""Checkpoints are whole, or refused by name; a crash or a full disk costs at most the one under way."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_sft import recipe, stop_after, train

from interleave.errors import ConfigurationError, LimitReached, StorageError
from interleave.train import checkpoints
from interleave.train.inspection import open_rows
from interleave.train.models import load_trainable_model
from interleave.train.monitor import TrainingMonitor
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import TrainingJob
from interleave.train.sft import sft_trainer


@pytest.fixture(scope="module")
def stopped(toy: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that stopped after its second step, with a checkpoint of each."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    with pytest.MonkeyPatch.context() as patched:
        stop_after(patched, 2)
        with pytest.raises(LimitReached):
            train(toy, data, out, training__save_every=1, training__steps=3)
    return out


@pytest.fixture
def out(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "out"))


def go_on(toy: Path, data: Path, out: Path, **options: Any) -> str:
    return train(toy, data, out, training__save_every=1, training__steps=3, **options)


def truncated(last: Path) -> Path:
    os.truncate(last / "model.safetensors", 1000)
    return last / "model.safetensors"


def empty(last: Path) -> Path:
    os.truncate(last / "optimizer.pt", 0)
    return last / "optimizer.pt"


def missing(last: Path) -> Path:
    (last / "rng_state.pth").unlink()
    return last / "rng_state.pth"


def altered(last: Path) -> Path:
    with (last / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    return last / "model.safetensors"


@pytest.mark.parametrize("spoil", [truncated, empty, missing, altered])
def test_K08_a_broken_checkpoint_is_refused_by_name_and_an_older_one_taken_only_if_asked(
    spoil: Any, toy: Path, data: Path, out: Path
) -> None:
    path = spoil(out / "checkpoints" / "checkpoint-2")
    with pytest.raises(ConfigurationError, match=f"broken: {path} .*--fall-back"):
        go_on(toy, data, out)
    assert checkpoints.latest(out / "checkpoints", fall_back=True) == out / "checkpoints" / "checkpoint-1"


def test_K08_falling_back_trains_on(toy: Path, data: Path, out: Path) -> None:
    truncated(out / "checkpoints" / "checkpoint-2")
    assert go_on(toy, data, out, fall_back=True).endswith("out/model")


def test_K08_a_checkpoint_of_another_model_is_refused(toy: Path, data: Path, out: Path) -> None:
    last = out / "checkpoints" / "checkpoint-2"
    config = (last / "config.json").read_text()
    (last / "config.json").write_text(config.replace('"hidden_size": 64', '"hidden_size": 128'))
    checkpoints.seal(last, step=2, processes=1)
    with pytest.raises(ConfigurationError, match=r"is not a checkpoint of .*hidden_size"):
        go_on(toy, data, out)


def test_K10_a_checkpoint_that_wants_to_run_code_is_refused(
    toy: Path, data: Path, out: Path, tmp_path: Path
) -> None:
    import pickle

    canary = tmp_path / "pwned"

    class Evil:
        def __reduce__(self) -> Any:
            return (os.system, (f"touch {canary}",))

    last = out / "checkpoints" / "checkpoint-2"
    for name in ("optimizer.pt", "rng_state.pth"):
        shutil.copy(last / name, tmp_path / name)
        (last / name).write_bytes(pickle.dumps(Evil()))
        checkpoints.seal(last, step=2, processes=1)  # whoever could write the file could seal it, too
        with pytest.raises(ConfigurationError, match="would run code"):
            go_on(toy, data, out)
        assert not canary.exists()
        shutil.copy(tmp_path / name, last / name)


def test_K10_a_model_that_brings_code_is_refused(toy: Path, data: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(toy, tmp_path / "bad"))
    config = (bad / "config.json").read_text()
    (bad / "config.json").write_text(config.replace("{", '{"auto_map": {"AutoModel": "x.Y"},', 1))
    with pytest.raises(ConfigurationError, match="auto_map"):
        train(bad, data, tmp_path / "out")


def test_K07_a_half_written_checkpoint_is_passed_over_and_removed_later(
    toy: Path, data: Path, out: Path
) -> None:
    half = out / "checkpoints" / "checkpoint-3"
    shutil.copytree(out / "checkpoints" / "checkpoint-2", half)
    (half / checkpoints.SEAL).unlink()
    os.truncate(half / "model.safetensors", 99)
    assert checkpoints.incomplete(out / "checkpoints") == [half]
    assert checkpoints.latest(out / "checkpoints") == out / "checkpoints" / "checkpoint-2"
    go_on(toy, data, out)
    assert checkpoints.verify(half).step == 3, "written anew, and whole"


def test_only_the_last_few_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "x").write_text("x")
        checkpoints.seal(folder, step=step, processes=1)
    (tmp_path / "checkpoint-11").mkdir()
    checkpoints.prune(tmp_path, 2)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["checkpoint-3", "checkpoint-10"]


# --- in a process of its own, so that it can be killed


def trainer_at_two(toy: Path, data: Path, out: Path) -> Any:
    settings = recipe(toy, training__keep=1)
    rows = open_rows(TrainingJob("critic", settings, data, out, trust_data=True), lambda message: None)
    trainer = sft_trainer(
        settings,
        load_trainable_model(settings.model),
        rows,
        OutputFolder(out),
        TrainingMonitor(),
        lambda message: None,
    )
    trainer.create_optimizer_and_scheduler(4)
    for weights in trainer.model.parameters():
        weights.grad = torch.ones_like(weights)
    trainer.optimizer.step()  # so that it has a state to save
    trainer._tr_loss, trainer._globalstep_last_logged = torch.tensor(0.0), 0
    trainer.state.global_step = 1
    trainer._save_checkpoint(trainer.model, None)
    trainer.state.global_step = 2
    return trainer


def in_a_child(work: Any) -> int:
    """Run in a forked process; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_K07_killed_at_any_point_of_saving_the_last_whole_checkpoint_remains(
    toy: Path, data: Path, tmp_path: Path
) -> None:
    trainer = trainer_at_two(toy, data, tmp_path / "out")
    folder = tmp_path / "out" / "checkpoints"
    points = 0
    while True:
        points += 1
        pristine = tmp_path / "pristine"
        shutil.copytree(folder, pristine)

        def save_until(point: int = points) -> int:
            left = [point]

            def kill(event: str, arguments: Any) -> None:
                if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"):
                    left[0] -= 1
                    if left[0] == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            trainer._save_checkpoint(trainer.model, None)
            return 0

        ended = in_a_child(save_until)
        last = checkpoints.latest(folder)
        assert last is not None, f"nothing whole is left after being killed at point {points}"
        assert last.name in ("checkpoint-1", "checkpoint-2")
        checkpoints.verify(last)
        if ended == 0:
            assert last.name == "checkpoint-2"
            break
        assert ended == -signal.SIGKILL
        shutil.rmtree(folder)
        pristine.rename(folder)
    assert points > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("limit", [100, 50_000, 1_100_000])
def test_K11_a_full_disk_keeps_the_checkpoint_before_and_says_so(
    limit: int, toy: Path, data: Path, tmp_path: Path
) -> None:
    trainer = trainer_at_two(toy, data, tmp_path / "out")

    def save_on_a_full_disk() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            trainer._save_checkpoint(trainer.model, None)
        except StorageError as error:
            return 7 if "free disk space" in str(error) else 8
        return 0

    assert in_a_child(save_on_a_full_disk) == 7
    folder = tmp_path / "out" / "checkpoints"
    assert [path.name for path in checkpoints.list_checkpoints(folder)] == ["checkpoint-1"]
    checkpoints.verify(folder / "checkpoint-1")
