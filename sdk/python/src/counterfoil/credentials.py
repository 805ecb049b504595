"""Credential-shaped values, which have no place in a log that is for ever (protocol, section 4).

Found by what a value looks like (API tokens, private keys, authorization headers) and by what its member is called
(``password``, ``api_key``). JSON inside strings and base64 of exact bytes are searched too. A net for accidents, not a
wall: it errs towards letting things through, and never repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from . import ijson
from .encoding import decode_base64
from .errors import CredentialShaped, FormatError
from .ijson import pointer_step
from .keys import WHITE_SPACE

#: How often JSON may hide in a string of JSON before the search stops.
_MAX_EMBEDDING = 3

_API_TOKEN = "an API token"
_WEB_TOKEN = "a JSON web token"
_PRIVATE_KEY = "a private key"
_AUTHORIZATION = "an authorization header"
_URL_PASSWORD = "a URL with a password"
_NAMED_SECRET = "a secret, by its member's name"

#: JSON pointer and kind.
_Found = tuple[str, str]


class _Named(IntEnum):
    """What a member's name says of its value."""

    NOTHING = 0
    #: Secret where they carry a value.
    COOKIE = 1
    SECRET = 2


def find_credential(members: Mapping[str, Any]) -> CredentialShaped | None:
    """The first credential-shaped value in a body, in the order written: where it is and what it looks like."""
    found = _in_object(members, _Named.NOTHING, 0)
    return None if found is None else CredentialShaped(*found)


def is_credential_shaped(text: str) -> bool:
    """Whether ``text`` itself looks like a secret, or holds something that does."""
    return _in_string(text, _Named.NOTHING, 0) is not None


def _in_object(members: Mapping[str, Any], named: _Named, embedding: int) -> _Found | None:
    # {"name": "X-Api-Key", "value": …}: how lists of headers and variables are often written.
    labels = [members[label] for label in ("name", "key", "header") if isinstance(members.get(label), str)]
    labelled = max((_named_as(label) for label in labels), default=_Named.NOTHING)
    is_web_key = isinstance(members.get("kty"), str)
    for name, value in members.items():
        kind = _shape_of(name)
        if kind is not None:
            return "", kind
        exact = _exact_text(value) if name == "receipt_b64" else None
        if is_web_key and name in ("d", "k") and isinstance(value, str):
            found: _Found | None = ("", _PRIVATE_KEY)
        elif exact is not None:
            found = _in_string(exact, _Named.NOTHING, embedding)
        elif name == "value":
            found = _in_value(value, max(labelled, named), embedding)
        else:
            found = _in_value(value, _named_as(name), embedding)
        if found is not None:
            return f"/{pointer_step(name)}{found[0]}", found[1]
    return None


def _in_value(value: Any, named: _Named, embedding: int) -> _Found | None:
    if isinstance(value, str):
        return _in_string(value, named, embedding)
    if isinstance(value, Mapping):
        return _in_object(value, named, embedding)
    if isinstance(value, list | tuple):
        for place, element in enumerate(value):
            found = _in_value(element, named, embedding)
            if found is not None:
                return f"/{place}{found[0]}", found[1]
    return None


def _in_string(text: str, named: _Named, embedding: int) -> _Found | None:
    kind = _shape_of(text)
    if kind is not None:
        return "", kind
    if named is not _Named.NOTHING and _is_secret(named, text):
        return "", _NAMED_SECRET
    if embedding < _MAX_EMBEDDING and text.lstrip(WHITE_SPACE)[:1] in ("{", "["):
        try:
            value = ijson.parse_value(text)
        except FormatError:
            return None
        return _in_value(value, named, embedding + 1)
    return None


def _exact_text(value: Any) -> str | None:
    """What the exact bytes of a foreign receipt say, where they are text."""
    data = decode_base64(value) if isinstance(value, str) else None
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# What a member is called.

_SECRET = frozenset(("password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets"))
_RUN_TOGETHER = (
    "password", "passwd", "passphrase", "apikey", "apitoken", "accesstoken", "authtoken", "refreshtoken",
    "clientsecret", "privatekey", "secretkey", "accesskey",
)  # fmt: skip
#: What a `key` must be to be secret: `api_key` is, `public_key` and `idempotency_key` are not.
_SECRET_KEYS = frozenset(("api", "private", "secret", "access", "encryption", "master"))
#: What a `token` may be without being secret: places in a listing, and the vocabulary of language models.
_HARMLESS_TOKENS = frozenset((
    "page", "next", "continuation", "cursor", "sync", "pagination", "idempotency", "stop", "eos", "bos", "pad", "unk",
    "sep", "cls", "mask", "special", "csrf",
))  # fmt: skip
#: How every name ends that says anything.
_ENDS = (
    "key", "token", "secret", "secrets", "password", "passwords", "passwd", "pwd", "phrase", "passcode", "cookie",
    "authorization", "bearer", "mnemonic",
)  # fmt: skip


def _lower(text: str) -> str:
    """ASCII letters in lower case, and nothing else changed."""
    return (
        text.lower()
        if text.isascii()
        else text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    )


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _named_as(name: str) -> _Named:
    if len(name) > 64 or not _lower(name).endswith(_ENDS) or _length(name) > 64:
        return _Named.NOTHING
    words = _words_of(name)
    last = words[-1] if words else ""
    before = words[-2] if len(words) > 1 else None
    if last == "cookie":
        return _Named.COOKIE
    if last in _SECRET or last.endswith(_RUN_TOGETHER) or (last == "pwd" and before is not None):
        secret = True
    elif last == "key" and before is not None:
        secret = before in _SECRET_KEYS
    elif last == "token" and before is not None:
        secret = before not in _HARMLESS_TOKENS
    else:
        secret = (
            (last == "phrase" and before in ("seed", "recovery", "pass"))
            or words in (["proxy", "authorization"], ["x", "authorization"])
            or (len(words) == 1 and last in ("token", "authorization", "bearer", "mnemonic"))
        )
    return _Named.SECRET if secret else _Named.NOTHING


def _words_of(name: str) -> list[str]:
    """`API-Key`, `apiKey`, `APIKey` and `api_key` are the words `api`, `key`."""
    words = [""]
    for place, character in enumerate(name):
        before = name[place - 1] if place else ""
        after = name[place + 1 : place + 2]
        begins = character.isupper() and (
            before.islower() or ("0" <= before <= "9") or (before.isupper() and after.islower())
        )
        if not character.isalnum() or begins:
            words.append("")
        if character.isalnum():
            words[-1] += character.lower()
    return [word for word in words if word]


def _is_secret(named: _Named, value: str) -> bool:
    if named is _Named.COOKIE:
        _, equals, content = value.partition("=")
        return bool(equals) and not _stands_for_no_secret(content)
    return not _stands_for_no_secret(value)


# What a value says when it says that there is no secret here.

_MASKING = frozenset("*•●…")
_MASKED = frozenset("*•●….xX#-_")
_BRACKETS = (("<", ">"), ("[", "]"), ("{{", "}}"), ("${", "}"), ("%", "%"))
_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]*")
_SAYS_SO = ("redacted", "masked", "withheld", "omitted", "scrubbed")
_ALGORITHMS = ("sha1", "sha256", "sha384", "sha512", "hmac-sha256", "blake2b", "blake3")
_HEX_DIGEST = re.compile(r"[0-9a-fA-F]{40,}")
_KEPT_IN = ("vault:", "env:", "arn:", "op://", "ref:", "keychain:", "keyring:", "secret://", "file:")
_WORDS = frozenset((
    "none", "null", "nil", "n/a", "true", "false", "yes", "no", "ok", "missing", "absent", "present", "provided",
    "required", "optional", "valid", "invalid", "verified", "unverified", "expired", "revoked", "unknown", "granted",
    "denied", "approved", "allowed", "allow", "deny", "refused", "removed", "hidden", "unset", "set", "changed",
    "bearer", "basic", "digest", "jwt", "oauth", "oauth2", "oidc", "saml", "mtls", "negotiate",
))  # fmt: skip
#: `session_token` names a kind of secret; `Tr0ub4dor&3 password` is one.
_IDENTIFIER = re.compile(r"[a-z_-]*")


def _stands_for_no_secret(value: str) -> bool:
    value = value.strip(WHITE_SPACE)
    masking = sum(character in _MASKING for character in value)
    if (masking >= 3 and len(value) - masking <= 4) or _MASKED.issuperset(value):
        return True
    if _length(value) > 2 and any(value.startswith(a) and value.endswith(b) for a, b in _BRACKETS):
        return True
    lower = _lower(value)
    if _VARIABLE.fullmatch(value) or (_length(value) <= 40 and any(word in lower for word in _SAYS_SO)):
        return True
    algorithm, colon, digest = value.partition(":")
    if colon and algorithm in _ALGORITHMS:
        decoded = decode_base64(digest)
        if _HEX_DIGEST.fullmatch(digest) or (decoded is not None and len(decoded) >= 20):
            return True
    if value.startswith(_KEPT_IN) or lower in _WORDS:
        return True
    return _named_as(lower) is _Named.SECRET and _IDENTIFIER.fullmatch(lower) is not None


# What a credential looks like, wherever in a string it stands: a prefix that nothing else has, at the beginning of a word,
# and as many characters behind it as the provider writes.

_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]*")
_WORD = re.compile(r"[A-Za-z0-9_]*")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")
_DOTTED = re.compile(r"[A-Za-z0-9_.-]*")
_TOKEN68 = re.compile(r"[A-Za-z0-9_.~+/=-]*")

_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_UPPER = re.compile(r"[A-Z]")
_LOWER = re.compile(r"[a-z]")
_CHANGES_CASE = re.compile(r"[a-z][A-Z]")


def _as_it_may(run: str) -> bool:
    return True


def _has_digit(run: str) -> bool:
    return _DIGIT.search(run) is not None


def _has_upper(run: str) -> bool:
    return _UPPER.search(run) is not None


def _all_upper(run: str) -> bool:
    return _LOWER.search(run) is None


_MOST = 1 << 62
_Token = tuple[str, "re.Pattern[str]", int, int, Callable[[str], bool]]


def _token(prefix: str, alphabet: re.Pattern[str], least: int, most: int = _MOST, looks: Callable[[str], bool] = _as_it_may) -> _Token:  # fmt: skip
    return prefix, alphabet, least, most, looks


#: As providers document them, or as the tokens they give out show.
_TOKENS: tuple[_Token, ...] = (
    *(_token(f"gh{kind}_", _ALPHANUMERIC, 20) for kind in "pousr"),
    _token("github_pat_", _WORD, 20),
    _token("AKIA", _ALPHANUMERIC, 16, 16, _all_upper),
    _token("ASIA", _ALPHANUMERIC, 16, 16, _all_upper),
    *(_token(f"xox{kind}-", _URL_SAFE, 10, looks=_has_digit) for kind in "abeprs"),
    _token("xapp-", _URL_SAFE, 10, looks=_has_digit),
    _token("AIza", _URL_SAFE, 35, 35, _has_upper),
    _token("ya29.", _URL_SAFE, 30),
    *(_token(f"gl{kind}-", _URL_SAFE, 20) for kind in ("pat", "dt", "rt")),
    _token("npm_", _ALPHANUMERIC, 30),
    _token("pypi-", _URL_SAFE, 50),
    _token("dckr_pat_", _URL_SAFE, 20),
    _token("sk-ant-", _URL_SAFE, 20, looks=_has_digit),
    _token("sk-proj-", _URL_SAFE, 20, looks=_has_digit),
    _token("hf_", _ALPHANUMERIC, 30),
    *(_token(f"{kind}_{mode}_", _ALPHANUMERIC, 16) for kind in ("sk", "rk") for mode in ("live", "test")),
    _token("whsec_", _ALPHANUMERIC, 24),
    _token("SG.", _DOTTED, 60),
    _token("shpat_", _ALPHANUMERIC, 32),
    _token("dop_v1_", _ALPHANUMERIC, 60),
    _token("lin_api_", _ALPHANUMERIC, 30),
    _token("hvs.", _URL_SAFE, 20),
    _token("AGE-SECRET-KEY-1", _ALPHANUMERIC, 50),
)
_BEARER = ("Bearer ", "bearer ", "BEARER ")
_BASIC = ("Basic ", "basic ", "BASIC ")
#: Private keys in forms of their own: the note package's and PuTTY's.
_KEY_FILES = ("PRIVATE+KEY+", "PuTTY-User-Key-File-")

#: Where a word begins that may begin a credential.
_BEGINNINGS = re.compile(
    "(?<![A-Za-z0-9_])(?="
    + "|".join(map(re.escape, [*(t[0] for t in _TOKENS), "sk-", "eyJ", *_BEARER, *_BASIC, "BEGIN ", *_KEY_FILES]))
    + ")"
)
_AUTHORITY_ENDS = re.compile("[/?#\"'<>" + re.escape(WHITE_SPACE) + "]")


def _shape_of(text: str) -> str | None:
    """The kind of the first credential shape in ``text``."""
    # Every shape has at least so many bytes; most strings in a receipt have fewer.
    if len(text) < 12 and _length(text) < 12:
        return None
    if "@" in text and _holds_url_password(text):
        return _URL_PASSWORD
    for begins in _BEGINNINGS.finditer(text):
        kind = _credential_at(text, begins.start())
        if kind is not None:
            return kind
    return None


def _credential_at(text: str, start: int) -> str | None:
    if any(text.startswith(token[0], start) and _is_token(text, start, token) for token in _TOKENS):
        return _API_TOKEN
    # Behind a hyphen `sk-` may be a part of base64url, or of a name.
    if text.startswith("sk-", start) and not text.endswith("-", 0, start) and _is_plain_sk_key(text, start + 3):
        return _API_TOKEN
    dotted = _run(_DOTTED, text, start)
    # `eyJ` is how base64url writes `{"`. A signed token has two dots, an encrypted one four.
    if dotted.startswith("eyJ") and len(dotted) >= 36 and dotted.count(".") >= 2:
        return _WEB_TOKEN
    if _is_private_key(text, start):
        return _PRIVATE_KEY
    return _AUTHORIZATION if _is_authorization(text, start) else None


def _run(alphabet: re.Pattern[str], text: str, start: int) -> str:
    found = alphabet.match(text, start)
    return found.group() if found else ""


def _is_token(text: str, start: int, token: _Token) -> bool:
    prefix, alphabet, least, most, looks = token
    run = _run(alphabet, text, start + len(prefix))
    return least <= len(run) <= most and looks(run)


def _is_plain_sk_key(text: str, start: int) -> bool:
    """At least 20 characters, of which 16 in a row hold letters and digits: no hyphenated words."""
    tail = _run(_URL_SAFE, text, start)
    parts = re.split("[-_]", tail)
    return len(tail) >= 20 and any(len(p) >= 16 and _DIGIT.search(p) and _LETTER.search(p) for p in parts)


def _is_private_key(text: str, start: int) -> bool:
    if text.startswith("BEGIN ", start) and text.endswith("-----", 0, start):
        return "PRIVATE KEY" in text[start + len("BEGIN ") :].split("-----", 1)[0]
    return text.startswith(_KEY_FILES, start)


def _is_authorization(text: str, start: int) -> bool:
    """`Bearer` and something that no word looks like, or `Basic` and base64 of `user:password`."""
    scheme = next((scheme for scheme in _BEARER + _BASIC if text.startswith(scheme, start)), None)
    if scheme is None:
        return False
    rest = text[start + len(scheme) :].lstrip(" \t\n\f\r")
    credentials = _run(_TOKEN68, rest, 0)
    if scheme in _BEARER:
        least = 8 if _is_whole_header(text, start, credentials) else 12
        is_mixed = _DIGIT.search(credentials) and _LETTER.search(credentials)
        return len(credentials) >= least and bool(is_mixed or _CHANGES_CASE.search(credentials))
    decoded = decode_base64(credentials)
    if decoded is None and "=" not in credentials:
        decoded = decode_base64(credentials + "=" * (-len(credentials) % 4))
    try:
        pair = (decoded or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return ":" in pair and not any(c < " " or "\x7f" <= c <= "\x9f" for c in pair)


def _is_whole_header(text: str, start: int, credentials: str) -> bool:
    """Whether the scheme stands where only a header has it: alone in its string, or after `authorization:`."""
    before = text[:start].rstrip(WHITE_SPACE)
    alone = not before and text.rstrip(WHITE_SPACE).endswith(credentials)
    return alone or (before.endswith(":") and _lower(before[:-1]).endswith("authorization"))


def _holds_url_password(text: str) -> bool:
    for rest in text.split("://")[1:]:
        login, at, _ = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0].rpartition("@")
        _, colon, password = login.partition(":")
        if at and colon and not _stands_for_no_secret(password):
            return True
    return False
