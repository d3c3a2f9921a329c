"""Files signed by a generator or a camera: kept in the run, continued through edits, branches and exports."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from interleave import (
    GeneratorCapabilities,
    ImageRequest,
    Plan,
    PlanStep,
    branch_run,
    edit,
    export,
    generate,
    load_generator,
    read_image,
    read_record,
)
from interleave.images import encode_png, original_of
from interleave.plugin import ImageStore
from interleave.provenance.claims import AI_IMAGE, Statements
from interleave.provenance.copies import write_signed_copies
from interleave.provenance.keys import signing_key
from interleave.provenance.reading import Claim, read_credentials
from interleave.provenance.signing import Signer
from interleave.remote.image_encoding import image_from_bytes

PROVIDER = "A Provider"


class SigningProvider:
    """A remote model that signs what it sends, in any of the formats that providers use."""

    capabilities = GeneratorCapabilities(max_sources=1)

    def __init__(self, signer: Signer, kind: str = "PNG") -> None:
        self.signer, self.kind = signer, kind
        self.painter = load_generator("solid?size=64")

    async def generate(self, request: ImageRequest) -> Image.Image:
        return image_from_bytes(self.signed(await self.painter.generate(request)), where="provider")

    def signed(self, image: Image.Image) -> bytes:
        file = io.BytesIO()
        image.save(file, self.kind)
        made = {"action": "c2pa.created", "digitalSourceType": AI_IMAGE, "softwareAgent": {"name": PROVIDER}}
        return self.signer.embed(
            Statements("theirs", f"image/{self.kind.lower()}", (made,), {}), file.getvalue()
        )


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_keys: Path) -> Signer:
    """A key that this user neither has nor trusts."""
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "provider"))
    signer = Signer(signing_key("self"))
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(own_keys))
    return signer


def drawn(folder: Path, provider: SigningProvider, steps: int = 2, **more: object) -> Path:
    plan = Plan(steps=tuple(PlanStep(number=n, prompt=f"a hill {n}") for n in range(1, steps + 1)))
    options = {"profile": "dry-run", "critic": "none", "generator": provider, **more}
    generate("hills", plan=plan, out=folder, **options)  # type: ignore[arg-type]
    return folder


def line_of(claim: Claim | None) -> list[Claim]:
    """Return a claim and its parents, newest first."""
    if claim is None:
        return []
    parents = [used.claim for used in claim.ingredients if used.relationship == "parentOf"]
    return [claim, *(line_of(parents[0]) if parents else [])]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_providers_signature_is_kept_and_continued(kind: str, tmp_path: Path, foreign: Signer) -> None:
    run = drawn(tmp_path / "run", SigningProvider(foreign, kind), steps=1)
    attempt = read_record(run).steps[0].attempt
    assert attempt is not None
    store = ImageStore(run)
    assert store.read(attempt.image) and store.original(attempt.image)
    (copy,) = write_signed_copies(run, tmp_path / "signed")
    ours, theirs = line_of(read_credentials(copy).claim)
    assert ours.actions == ("c2pa.opened", "c2pa.transcoded")
    assert (theirs.models, theirs.trust, ours.trust) == ((PROVIDER,), "unknown", "trusted")
    assert "trainedAlgorithmicMedia" in ours.source_types


def test_a_foreign_signature_survives_edit_branch_and_export(tmp_path: Path, foreign: Signer) -> None:
    run = drawn(tmp_path / "run", SigningProvider(foreign), steps=2)
    edit(run, draw=False).redraw(2, prompt="a hill with a tower", generator="solid?size=64")
    drawn(run, SigningProvider(foreign), steps=2)
    assert [step.attempt.generator for step in read_record(run).steps if step.attempt] == [
        None,
        "solid?size=64",
    ]
    branch_run(run, tmp_path / "branch", step=2, prompt="another tower", generator="solid?size=64")
    for folder in (run, tmp_path / "branch"):
        path = export(folder, "epub", out=tmp_path / f"{folder.name}.epub", sign="self")
        found = read_credentials(path)
        assert found.state == "intact" and found.claim
        lines = [line_of(used.claim) for used in found.claim.ingredients]
        assert all(line[-1].models == (PROVIDER,) for line in lines if line)
        assert [len(line) for line in lines] == ([2, 3] if folder == run else [2])


def test_drift_control_is_told_as_an_edit_of_the_providers_file(tmp_path: Path, foreign: Signer) -> None:
    run = drawn(tmp_path / "run", SigningProvider(foreign), drift_control="keep,align")
    *_, copy = write_signed_copies(run, tmp_path / "signed")
    ours, theirs = line_of(read_credentials(copy).claim)[:2]
    assert ours.actions[0] == "c2pa.opened" and ours.actions[1] in ("c2pa.edited", "c2pa.transcoded")
    assert theirs.models == (PROVIDER,)


def test_a_users_signed_photo_is_the_parent_of_what_is_drawn_from_it(tmp_path: Path, foreign: Signer) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(SigningProvider(foreign, "JPEG").signed(Image.new("RGB", (64, 64), "teal")))
    generate(
        ["put a hill behind it", read_image(photo)],
        plan=Plan(steps=(PlanStep(number=1, prompt="a hill behind it"),)),
        profile="dry-run",
        critic="none",
        generator="solid?size=64",
        out=tmp_path / "run",
    )
    (copy,) = write_signed_copies(tmp_path / "run", tmp_path / "signed")
    drawn_, given, theirs = line_of(read_credentials(copy).claim)
    assert (drawn_.title, given.title) == ("Image of step 1", "Image given by the user")
    assert theirs.models == (PROVIDER,)


def test_only_files_with_credentials_are_kept(tmp_path: Path) -> None:
    plain = image_from_bytes(encode_png(Image.new("RGB", (16, 16))), where="provider")
    assert original_of(plain) is None
    store = ImageStore(tmp_path)
    assert store.original(store.put(plain)) is None
