"""Signing keys: a PEM file with a private key and its certificates, or one made on first use.

The own key is signed by a certificate authority that exists only while it is made: its certificate is kept,
so that others can trust it by file, but its key is thrown away. Nothing in it names the user or the machine.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import config, entry_points, files, folder_lock, make_folder, say, write_atomic

if TYPE_CHECKING:
    from cryptography import x509

OWN = "self"
"""Value of `--sign` for the own key."""
FOLDER, KEY_FILE, CERTIFICATE_FILE = "signing", "key.pem", "certificate.pem"
INSTALL = 'pip install "interleavethinker[provenance]"'
VALID_YEARS = 20
"""Without a trusted time stamp, a signature counts only while its certificate is valid."""
MOST_BYTES = 200_000
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


@dataclass(frozen=True)
class SigningKey:
    """A private key with its certificates, the own one first, as PEM."""

    algorithm: str
    """Name of the algorithm in C2PA, such as `es256`."""
    private: bytes
    certificates: bytes


def require_c2pa() -> None:
    """Raise `MissingDependency` unless the extra is installed."""
    if lacking := [name for name in ("c2pa", "cryptography") if not entry_points.is_importable(name)]:
        raise MissingDependency(
            f"content credentials need the package {lacking[0]!r}, which is not installed. "
            f"Install it with: {INSTALL}"
        )


def signing_key(given: str) -> SigningKey:
    """Return the key in a PEM file, or the own key for `self`."""
    require_c2pa()
    if given == OWN:
        return _read_key(_own_key_file())
    return _read_key(Path(given))


def own_certificate() -> Path | None:
    """Return the file with the certificate of the own key, to give to others. `None` if there is no key."""
    folder = _own_folder()
    path = folder / CERTIFICATE_FILE if folder else None
    return path if path and path.is_file() else None


def _own_folder() -> Path | None:
    own = config.config_folder()
    return own / FOLDER if own else None


def _own_key_file() -> Path:
    """Return the file of the own key, made on first use."""
    folder = _own_folder()
    if folder is None:
        raise ConfigurationError(
            "sign=self: there is no home folder to keep a key in: set $INTERLEAVE_CONFIG"
        )
    path = folder / KEY_FILE
    if not path.exists():
        try:
            make_folder(folder)
            folder.chmod(0o700)
        except OSError as error:
            raise ConfigurationError(f"sign=self: {folder} cannot be made ({files.why(error)})") from None
        with folder_lock(folder, ".lock"):
            if not path.exists():
                _make_key(path, folder / CERTIFICATE_FILE)
                say(f"made a signing key: {path}. Others can check it with {folder / CERTIFICATE_FILE}")
    return path


def _make_key(path: Path, certificate: Path) -> None:
    """Write a new key and the certificate that others need; the key last, because it says that both exist."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("certificate of", key, authority_key)
    own = _certificate("key", key, authority_key, authority)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = [each.public_bytes(Encoding.PEM) for each in (own, authority)]
    write_atomic(certificate, public[1])
    write_atomic(path, private + b"".join(public), private=True)


def _certificate(
    what: str, key: Any, authority_key: Any, authority: x509.Certificate | None = None
) -> x509.Certificate:
    """Return a certificate of `key`, or that of its authority, in the profile that C2PA requires."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    is_authority = authority is None
    number = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()[:8]
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Self-signed"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"InterleaveThinker {what} {number}"),
        ]
    )
    public, now = (authority_key if is_authority else key).public_key(), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority.subject if authority else name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * VALID_YEARS))
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .add_extension(_usage(is_authority), critical=True)
    )
    if not is_authority:
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), critical=False
        )
    return builder.sign(authority_key, hashes.SHA256())


def _usage(is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _read_key(path: Path) -> SigningKey:
    """Return the key in a file. Raises `ConfigurationError` that says what it lacks."""
    blocks = _blocks(path)
    private = [text for kind, text in blocks if kind.endswith("PRIVATE KEY")]
    certificates = [text for kind, text in blocks if kind == "CERTIFICATE"]
    if len(private) != 1 or not certificates:
        raise ConfigurationError(
            f"sign={path}: it has {len(private)} private keys and {len(certificates)} certificates: "
            "put one private key and its certificate, with those of its issuers, into one PEM file"
        )
    _refuse_readable_by_all(path)
    return SigningKey(
        _algorithm(path, private[0], certificates[0]), private[0].encode(), "".join(certificates).encode()
    )


def _blocks(path: Path) -> list[tuple[str, str]]:
    try:
        text = files.read_text(path, most_bytes=MOST_BYTES)
    except FileNotFoundError:
        raise ConfigurationError(f"sign={path}: no such file. Name a PEM file, or {OWN!r}") from None
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"sign={path}: cannot be read ({files.why(error)})") from None
    return [(match[1], match[0].rstrip("\n") + "\n") for match in _BLOCK.finditer(text)]


def _refuse_readable_by_all(path: Path) -> None:
    if path.stat().st_mode & stat.S_IROTH:
        raise ConfigurationError(
            f"sign={path}: every user of this machine can read this key: chmod 600 {path}"
        )


def _algorithm(path: Path, private: str, certificate: str) -> str:
    """Return the algorithm of a key; raise `ConfigurationError` unless the certificate is its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private.encode(), password=None)
        owner = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except TypeError:
        raise ConfigurationError(f"sign={path}: the key has a password: save it without one") from None
    except Exception as error:  # any damage to a key or certificate
        raise ConfigurationError(f"sign={path}: not a usable key ({error})") from None
    if key.public_key() != owner:
        raise ConfigurationError(f"sign={path}: the first certificate is not that of the key")
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size in (256, 384, 521):
        return {256: "es256", 384: "es384", 521: "es512"}[key.key_size]
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "ed25519"
    if isinstance(key, rsa.RSAPrivateKey):
        return "ps256"
    raise ConfigurationError(f"sign={path}: use an EC, Ed25519 or RSA key")
