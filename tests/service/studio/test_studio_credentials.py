"""Where images come from, as the studio tells it: models, images before, and signed files of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running import HeldGenerator, Service, service

from interleave.images import encode_png

c2pa = pytest.importorskip("c2pa")


class SigningGenerator(HeldGenerator):
    """A remote model that signs what it sends."""

    async def generate(self, request: Any) -> Any:
        from interleave.provenance.claims import AI_IMAGE, Statements
        from interleave.provenance.keys import signing_key
        from interleave.provenance.signing import Signer
        from interleave.remote.image_encoding import image_from_bytes

        plain = encode_png(await super().generate(request))
        made = {"action": "c2pa.created", "digitalSourceType": AI_IMAGE, "softwareAgent": {"name": "Theirs"}}
        data = Signer(signing_key("self")).embed(Statements("theirs", "image/png", (made,), {}), plain)
        return image_from_bytes(data, where="provider")


def origins(running: Service) -> list[dict[str, Any]]:
    id_ = running.sdk().responses.create(input="How a frog grows up, in three images").id
    found = running.http.get(f"/v1/studio/documents/{id_}/credentials").raise_for_status().json()
    return list(found["images"])


def test_each_image_names_its_model_and_the_image_before_it(running: Service) -> None:
    first, second, third = origins(running)
    assert (first["number"], first["edited"], first["sources"]) == (1, False, [])
    assert (first["model"], first["received"]) == ("a model", None)
    assert [(each["edited"], each["sources"][0]["step"]) for each in (second, third)] == [
        (True, 1),
        (True, 2),
    ]


def test_a_signed_file_of_the_generator_is_named_with_its_signer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "config"))
    with service(tmp_path / "documents", generator=SigningGenerator()) as running:
        found = origins(running)
    for image in found:
        assert image["received"]["state"] == "intact"
        assert image["received"]["signer"].startswith("InterleaveThinker key ")
        assert image["received"]["source_types"] == ["trainedAlgorithmicMedia"]


def test_a_damaged_original_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "config"))
    with service(tmp_path / "documents", generator=SigningGenerator()) as running:
        id_ = running.sdk().responses.create(input="two images").id
        for original in (tmp_path / "documents").rglob("*.original"):
            data = bytearray(original.read_bytes())
            place = data.index(b"IDAT") + 20
            data[place] ^= 1
            original.write_bytes(data)
        found = running.http.get(f"/v1/studio/documents/{id_}/credentials").json()["images"]
    assert [image["received"]["state"] for image in found] == ["altered", "altered"]


def test_an_unknown_document_has_no_credentials(running: Service) -> None:
    assert running.http.get("/v1/studio/documents/resp_none/credentials").status_code == 404
