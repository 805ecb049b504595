"""Keys: vkeys, private keys in the note package's text form, and strict Ed25519.

::

    vkey         <name>+<8 lowercase hex: key id>+<base64(type | public key)>
    private key  PRIVATE+KEY+<name>+<8 lowercase hex: key id>+<base64(type | seed)>
    key id       SHA-256(<name> | 0x0A | type | public key)[:4]

Strict means: canonical encodings of A and R, neither of small order, S below the group's order, the equation without
cofactor. OpenSSL checks the equation that way; the rest is checked here. Others that take more signatures than these
would disagree with everybody else.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .encoding import decode_base64, encode_base64, is_lower_hex
from .errors import KeyFormatError

PRIVATE_PREFIX = "PRIVATE+KEY+"
MAX_NAME_LEN = 255

#: Ed25519 over a note's text: gates and logs.
ED25519 = 0x01
#: Timestamped Ed25519 over a checkpoint: witnesses.
COSIGNATURE_V1 = 0x04
#: Timestamped ML-DSA-44 over a tree: witnesses, beside the kind above.
ML_DSA_44 = 0x06

_KEY_LENGTHS = {ED25519: 32, COSIGNATURE_V1: 32, ML_DSA_44: 1312}
#: Bytes of a signature by a key of this kind.
SIGNATURE_LENGTHS = {ED25519: 64, COSIGNATURE_V1: 64, ML_DSA_44: 2420}

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_SQRT_M1 = pow(2, (_P - 1) // 4, _P)

#: Largest key file: the longest line there is has 2,100 bytes.
_MAX_KEY_FILE = 4096


class VerifierKey:
    """A public key with its name and kind: whom to believe. One that exists is canonical and not weak."""

    __slots__ = ("_ed25519", "id", "kind", "name", "public_key")

    name: str
    kind: int
    public_key: bytes
    #: The four bytes that stand before this key's signatures.
    id: bytes

    def __init__(self, name: str, kind: int, public_key: bytes) -> None:
        """From its parts. Raises :class:`KeyFormatError`."""
        check_name(name)
        if kind not in _KEY_LENGTHS:
            raise KeyFormatError(
                f"keys of signature type {kind:#04x} are not supported; use 0x01 for gates and logs, 0x04 or 0x06 for witnesses",
                code="key-kind-unknown",
            )
        if len(public_key) != _KEY_LENGTHS[kind]:
            raise KeyFormatError("the key's last part has the wrong length; copy the whole line", code="key-length")
        if kind == ML_DSA_44:
            if not any(public_key[32:]):
                raise _weak()
            self._ed25519 = None
        else:
            _check_point(public_key)
            self._ed25519 = Ed25519PublicKey.from_public_bytes(public_key)
        self.name, self.kind, self.public_key = name, kind, public_key
        self.id = key_id(name, kind, public_key)

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Reads a vkey. Raises :class:`KeyFormatError`; the text itself is never repeated, it may be a private key."""
        if text.startswith(PRIVATE_PREFIX):
            raise KeyFormatError(
                "this is a private key; give the vkey that was printed beside it, and keep this one to yourself",
                code="private-key",
            )
        name, identity, kind, material = _split(text)
        key = cls(name, kind, material)
        if key.id != identity:
            raise _id_mismatch()
        return key

    def cosigns(self) -> bool:
        """Whether keys of this kind cosign, and sign nothing else."""
        return self.kind != ED25519

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's over exactly ``message``, strictly. Says nothing of what the message is."""
        if len(signature) != SIGNATURE_LENGTHS[self.kind]:
            return False
        if self._ed25519 is None:
            return _verify_ml_dsa(self.public_key, message, signature)
        if int.from_bytes(signature[32:], "little") >= _L or not _is_canonical_of_large_order(signature[:32]):
            return False
        try:
            self._ed25519.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def __str__(self) -> str:
        return _text(self.name, self.id, self.kind, self.public_key)

    def __repr__(self) -> str:
        return f"VerifierKey({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VerifierKey):
            return NotImplemented
        return (self.kind, self.name, self.public_key) == (other.kind, other.name, other.public_key)

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.public_key))


class SigningKey:
    """A private Ed25519 key with its name and kind. Does not print itself."""

    __slots__ = ("_private", "_seed", "verifier")

    #: The public half, which others check with.
    verifier: VerifierKey

    def __init__(self, name: str, seed: bytes, kind: int = ED25519) -> None:
        """The key that 32 bytes of seed make, from the system's randomness or a test's. Raises :class:`KeyFormatError`."""
        if kind not in (ED25519, COSIGNATURE_V1):
            raise KeyFormatError(
                "only keys of type 0x01 and 0x04 sign here; use a witness for others", code="key-kind-unknown"
            )
        if len(seed) != 32:
            raise KeyFormatError("the key's last part has the wrong length; copy the whole line", code="key-length")
        self._seed = seed
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.verifier = VerifierKey(name, kind, public)

    @classmethod
    def generate(cls, name: str) -> SigningKey:
        """A new issuer's key, named as its gate: letters and dots as in a host name, and a path if you like."""
        return cls(name, secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """Reads ``PRIVATE+KEY+…``, without a line end. Raises :class:`KeyFormatError`."""
        if not text.startswith(PRIVATE_PREFIX):
            raise _shape()
        name, identity, kind, seed = _split(text[len(PRIVATE_PREFIX) :])
        key = cls(name, seed, kind)
        if key.verifier.id != identity:
            raise _id_mismatch()
        return key

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Reads a key file: one line, accessible to its owner alone.

        Raises :class:`KeyFormatError`: ``key-file`` where it is not there, cannot be read, or may be read or changed by
        others; and the codes of :meth:`parse`.
        """
        named = f"the key file {os.fspath(path)!r}"
        try:
            with open(path, "rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise KeyFormatError(
                        f"{named} is open to others (mode {mode:04o}); run chmod 600 on it, and make a new key if anybody "
                        "else uses this machine",
                        code="key-file",
                    )
                text = file.read(_MAX_KEY_FILE)
        except OSError as error:
            raise KeyFormatError(
                f"{named} cannot be read: {error.strerror}; make one with `counterfoil keygen --kind issuer`, or correct the path",
                code="key-file",
            ) from error
        try:
            return cls.parse(text.decode("utf-8").removesuffix("\n"))
        except UnicodeDecodeError:
            raise _shape() from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes a new key file of mode 0600, durably. Never over another file: that raises :class:`FileExistsError`."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(self.private_text().encode("utf-8") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        directory = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def private_text(self) -> str:
        """The text that :meth:`parse` reads. Keep it secret."""
        return PRIVATE_PREFIX + _text(self.name, self.verifier.id, self.verifier.kind, self._seed)

    def secret_for(self, purpose: str) -> bytes:
        """32 bytes that only whoever holds this key can make, other ones for each purpose: to tell one's own files from
        others'. No signature, and nothing about the key follows from them."""
        return hmac.digest(self._seed, f"counterfoil/secret/v1\n{purpose}".encode(), "sha256")

    @property
    def name(self) -> str:
        """Whose key it is."""
        return self.verifier.name

    def sign(self, message: bytes) -> bytes:
        """64 bytes over exactly ``message``, the same every time."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"SigningKey(of {self.verifier})"


def key_id(name: str, kind: int, public_key: bytes) -> bytes:
    """The four bytes that stand before a key's signatures."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + bytes([kind]) + public_key).digest()[:4]


def check_name(name: str) -> None:
    """Raises :class:`KeyFormatError` unless ``name`` is a key name: 1 to 255 bytes, no spaces, ``+`` or controls."""
    if not name:
        raise KeyFormatError("a key name must not be empty; give the gate a name", code="name-empty")
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise KeyFormatError("a key name is Unicode text; remove the lone surrogate", code="name-character") from None
    if length > MAX_NAME_LEN:
        raise KeyFormatError(f"a key name has at most {MAX_NAME_LEN} bytes; shorten it", code="name-too-long")
    for character in name:
        if character in _FORBIDDEN or character < " ":
            raise KeyFormatError(
                f"a key name holds no spaces, plus signs or control characters; remove {character!r}",
                code="name-character",
            )


#: Unicode's White_Space property, which is not what `str.isspace` goes by.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_FORBIDDEN = frozenset("+" + WHITE_SPACE)


def _split(text: str) -> tuple[str, bytes, int, bytes]:
    # Names hold no `+`, base64 may: the third part is whatever is left.
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise _shape()
    name, identity, encoded = parts
    check_name(name)
    if len(identity) != 8 or not is_lower_hex(identity):
        raise KeyFormatError("the key's id is not 8 lowercase hex digits; copy the whole line", code="key-id")
    material = decode_base64(encoded)
    if material is None:
        raise KeyFormatError("the key's last part is not canonical base64; copy the whole line", code="key-base64")
    if not material:
        raise KeyFormatError("the key's last part has the wrong length; copy the whole line", code="key-length")
    kind = material[0]
    if kind not in _KEY_LENGTHS:
        raise KeyFormatError(
            f"keys of signature type {kind:#04x} are not supported; use 0x01 for gates and logs, 0x04 or 0x06 for witnesses",
            code="key-kind-unknown",
        )
    return name, bytes.fromhex(identity), kind, material[1:]


def _text(name: str, identity: bytes, kind: int, material: bytes) -> str:
    return f"{name}+{identity.hex()}+{encode_base64(bytes([kind]) + material)}"


def _shape() -> KeyFormatError:
    return KeyFormatError(
        "not a key: a vkey reads name+8 hex digits+base64; copy the whole line that was printed when the key was made",
        code="key-shape",
    )


def _id_mismatch() -> KeyFormatError:
    return KeyFormatError(
        "the key's id does not belong to this name, type and key; the line was altered or damaged: copy it again",
        code="key-id-mismatch",
    )


def _weak() -> KeyFormatError:
    return KeyFormatError("the key is weak: anybody can sign with it; make a new key", code="weak-key")


def _x_of(y: int) -> int | None:
    """An x for the point with this y on the curve, or ``None`` (RFC 8032, 5.1.3)."""
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if v * x * x % _P == u:
        return x
    if v * x * x % _P == _P - u if u else False:
        return x * _SQRT_M1 % _P
    return None


def _small_order_encodings() -> frozenset[bytes]:
    """The canonical encodings of the eight points whose order divides the cofactor: y = ±1, 0, and ±y8 of order 8."""
    # A point of order 8 doubles to one with y = 0, so y^2 = -x^2, which the curve's equation turns into d y^4 + 2 y^2 = 1.
    root = _sqrt((1 + _D) % _P)
    roots = [_sqrt((-1 + sign * root) * pow(_D, _P - 2, _P) % _P) if root is not None else None for sign in (1, -1)]
    ys = {0, 1, _P - 1} | {value for y in roots if y is not None for value in (y, _P - y)}
    encodings = set()
    for y in ys:
        x = _x_of(y)
        if x is not None:
            for bit in (0, 1) if x else (0,):
                encodings.add((y | bit << 255).to_bytes(32, "little"))
    return frozenset(encodings)


def _sqrt(value: int) -> int | None:
    root = pow(value, (_P + 3) // 8, _P)
    for candidate in (root, root * _SQRT_M1 % _P):
        if candidate * candidate % _P == value % _P:
            return candidate
    return None


_SMALL_ORDER = _small_order_encodings()


def _check_point(encoded: bytes) -> None:
    y = int.from_bytes(encoded, "little") & (1 << 255) - 1
    x = _x_of(y % _P)
    # Zero has one sign: with the other the encoding is a second one of the same point.
    if x is None or y >= _P or (x == 0 and encoded[31] >> 7):
        raise KeyFormatError(
            "the key is not a canonically encoded Ed25519 point; nobody can sign with it reliably, make a new key",
            code="not-a-point",
        )
    if encoded in _SMALL_ORDER:
        raise _weak()


def _is_canonical_of_large_order(encoded: bytes) -> bool:
    # Whether R is a point at all follows from the equation, whose other side is computed and encoded canonically.
    return int.from_bytes(encoded, "little") & (1 << 255) - 1 < _P and encoded not in _SMALL_ORDER


def _verify_ml_dsa(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

        MLDSA44PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    except (ImportError, UnsupportedAlgorithm):
        raise KeyFormatError(
            "this installation of the cryptography package has no ML-DSA-44; install version 47 or newer",
            code="key-kind-unknown",
        ) from None
    except ValueError:
        return False
    return True
