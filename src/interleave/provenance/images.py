"""Signed copies of a run's images, each with the image before it as its parent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from interleave import RunRecord
from interleave.plugin import ImageStore, images
from interleave.provenance.claims import CHANGED_ORIGINAL, ORIGINAL, Ingredient, Statements, image_statements
from interleave.provenance.journals import journal_digest
from interleave.provenance.origins import GIVEN, origins_of
from interleave.provenance.reading import media_type_of
from interleave.provenance.signing import Signer

LONGEST = 2
"""Ancestors whose credentials an image carries. Each adds about 5 kB."""
MOST_INPUTS = 3


class SignedImages:
    """Signs images of a run."""

    def __init__(self, folder: Path, record: RunRecord, signer: Signer, prompts: str = "no") -> None:
        self.store = ImageStore(folder)
        self.origins = origins_of(record)
        self.signer = signer
        self.prompts = prompts
        self.journal = journal_digest(folder)
        self.png = cache(self._png)

    def _png(self, name: str, ancestors: int = LONGEST) -> bytes:
        """Return a signed copy of an image, without the prompt and seed in the metadata of its file."""
        return self.signed(name, self.bare(name), "image/png", ancestors)

    def bare(self, name: str) -> bytes:
        return images.encode_png(self.store.get(name))

    def signed(self, name: str, data: bytes, media_type: str, ancestors: int = LONGEST) -> bytes:
        """Sign a file that shows the image `name`, as PNG, WebP or JPEG."""
        return self.signer.embed(self._statements(name, media_type, ancestors), data)

    def original(self, name: str) -> Ingredient | None:
        """Return the signed file of a generator or user that an image was decoded from."""
        data = self.store.original(name)
        media_type = media_type_of(data) if data else None
        if data is None or media_type is None:
            return None
        same = images.pixel_digest(
            images.decode_image(data, name=f"the original of {name}", max_bytes=len(data))
        ) == images.pixel_digest(self.store.get(name))
        title = "Signed file as it was received"
        return Ingredient(ORIGINAL if same else CHANGED_ORIGINAL, title, "parentOf", media_type, data)

    def _statements(self, name: str, media_type: str, ancestors: int) -> Statements:
        origin = self.origins.get(name, GIVEN)
        return image_statements(
            origin,
            media_type,
            list(self._ingredients(name, ancestors)),
            prompts=self.prompts,
            journal=self.journal,
        )

    def _ingredients(self, name: str, ancestors: int) -> Iterator[Ingredient]:
        """Yield the parent first: the file the image was decoded from, or the image that it is an edit of."""
        origin, original = self.origins.get(name, GIVEN), self.original(name)
        if original is not None:
            yield original
        elif origin.is_given:
            yield Ingredient("parent", "Image given by the user", "parentOf", "image/png", self.bare(name))
        sources = [*([origin.parent] if origin.parent else []), *origin.inputs[-MOST_INPUTS:]]
        for number, each in enumerate(sources):
            is_parent = number == 0 and origin.parent is not None and original is None
            keeps = is_parent and ancestors > 0
            data = self.png(each, ancestors - 1) if keeps else self.bare(each)
            title, relationship = (
                ("Image before", "parentOf") if is_parent else ("Reference image", "inputTo")
            )
            yield Ingredient(f"source-{number}", title, relationship, "image/png", data)  # type: ignore[arg-type]
