"""Sign bytes: a manifest inside PNG, WebP, JPEG, PDF and EPUB, or beside any other file."""

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any

from interleave import ConfigurationError
from interleave.provenance.claims import Statements
from interleave.provenance.keys import SigningKey, own_certificate

if TYPE_CHECKING:
    import c2pa

EMBEDDED = {
    "image/png",
    "image/webp",
    "image/jpeg",
    "application/pdf",
    "application/epub+zip",
}
"""Media types whose files hold their manifest."""
ANY_FILE = "application/octet-stream"
SIDECAR = ".c2pa"
"""Suffix of the manifest beside a file, after the file's whole name."""


class Signer:
    """Signs with one key. Nothing is fetched from the network, so there is no trusted time stamp."""

    def __init__(self, key: SigningKey) -> None:
        self.key = key

    @cached_property
    def _signer(self) -> c2pa.Signer:
        import c2pa

        try:
            return c2pa.Signer.from_info(
                c2pa.C2paSignerInfo(
                    alg=self.key.algorithm.encode(),
                    sign_cert=self.key.certificates,
                    private_key=self.key.private,
                    ta_url=None,
                )
            )
        except c2pa.C2paError as error:
            raise ConfigurationError(f"sign: the key cannot be used ({error})") from None

    @cached_property
    def _context(self) -> c2pa.Context:
        return context()

    def embed(self, statements: Statements, data: bytes) -> bytes:
        """Return the file with its manifest in it."""
        made = io.BytesIO()
        self._sign(self._builder(statements), statements.media_type, data, made)
        return made.getvalue()

    def sidecar(self, statements: Statements, data: bytes) -> bytes:
        """Return a manifest about all bytes of a file, to lie beside it."""
        builder = self._builder(statements)
        builder.set_no_embed()
        return self._sign(builder, ANY_FILE, data, io.BytesIO())

    def _builder(self, statements: Statements) -> c2pa.Builder:
        import c2pa

        builder = c2pa.Builder(statements.manifest(), self._context)
        for each in statements.ingredients:
            builder.add_ingredient(each.stated, each.media_type, io.BytesIO(each.data))
        return builder

    def _sign(self, builder: c2pa.Builder, media_type: str, data: bytes, made: io.BytesIO) -> bytes:
        import c2pa

        try:
            signed: bytes = builder.sign(self._signer, media_type, io.BytesIO(data), made)
            return signed
        except c2pa.C2paError as error:
            raise ConfigurationError(f"sign: {media_type} cannot be signed with this key ({error})") from None


def context(anchors: str = "") -> c2pa.Context:
    """Return settings of c2pa: offline, without thumbnails, trusting the own certificate and `anchors`."""
    import c2pa

    own = own_certificate()
    trusted = "\n".join(filter(None, [own.read_text("utf-8") if own else "", anchors]))
    settings: dict[str, Any] = {
        "builder": {"thumbnail": {"enabled": False}},
        "verify": {
            "verify_trust": True,
            "verify_after_sign": False,
            "remote_manifest_fetch": False,
            "ocsp_fetch": False,
        },
    }
    if trusted:
        settings["trust"] = {"user_anchors": trusted}
    return c2pa.Context.from_dict(settings)
