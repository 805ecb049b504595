"""What a gate's caller says of a decision: its members by name, and the call that they make. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import bodies
from .errors import DecisionClaims
from .history import History

if TYPE_CHECKING:
    # For type checkers and editors, which bring it along: nothing of it is needed when this runs.
    from typing_extensions import Unpack as Unpack


class DecisionMembers(TypedDict, total=False):
    """The members that ``decision``, ``allow`` and ``deny`` take beside ``authenticated`` and ``executes``; all optional."""

    #: One for each request; 128 random bits unless given.
    request_id: str | None
    rule: str | None
    why: str | None
    caller_reason: str | None
    operation: str | None
    resource: str | None
    action_class: str | None
    subjects: Sequence[str] | None
    session: str | None
    #: In the receipt as a digest, or as they are with ``args_mode="clear"``: only then can an auditor compare what was
    #: executed.
    args: Any
    args_mode: Literal["digest", "clear"]
    #: What had been verified.
    proven: Sequence[str] | None
    claimed_agent: str | None
    bound_agent: str | None
    capability: Mapping[str, Any] | None
    grant: Mapping[str, Any] | None
    facts: Sequence[Mapping[str, Any]] | None
    approval: Mapping[str, Any] | None
    #: What it was judged by; of several taken under one head, all.
    history: History | Sequence[History] | None
    #: Names of members of which the receipt holds only a digest; what opens them stays in the outbox's ``disclosures``.
    commit: Collection[str]
    #: Members of your own.
    extra: Mapping[str, Any] | None


#: Their names.
MEMBERS: frozenset[str] = DecisionMembers.__optional_keys__
#: Those that say how the receipt is written; all others stand in it.
_NOT_WRITTEN = frozenset(("request_id", "args_mode", "history", "commit", "extra"))
_LISTS = ("subjects", "proven", "facts")


@dataclass(frozen=True)
class AsOf:
    """The moment of the history that a decision was judged by."""

    subjects: frozenset[str]
    #: The gate's next seq when it was read.
    next_seq: int


@dataclass(frozen=True)
class Call:
    """A decision, composed and not yet signed."""

    request_id: str
    written: bodies.DecisionText
    executes: str
    #: Who acts, and whether a verified capability binds it.
    agent: tuple[str, bool] | None
    as_of: AsOf | None = None


def check_names(names: Iterable[str], others: Collection[str] = ()) -> None:
    """Raises :class:`TypeError`, as Python does of any function, for what is no member of a decision."""
    for name in names:
        if name not in MEMBERS and name not in others:
            raise TypeError(f"a decision has no member {name!r}; members of your own go into `extra`")


def compose(
    ruling: Literal["allow", "deny"], authenticated: bool, executes: str, given: Mapping[str, Any] | DecisionMembers
) -> Call:
    """Writes a decision. Raises :class:`DecisionClaims` and :class:`~counterfoil.errors.JsonError`."""
    check_names(given)
    request_id = given.get("request_id")
    request_id = secrets.token_hex(16) if request_id is None else request_id
    members: dict[str, Any] = {name: value for name, value in given.items() if name not in _NOT_WRITTEN}
    members.update((name, _listed(members[name])) for name in _LISTS if name in members)
    members.update(authenticated=authenticated, executes=executes)
    histories = _histories(given.get("history"))
    members.update(History.claims(histories))
    commit = given.get("commit", ())
    written = bodies.decision(
        ruling,
        request_id,
        members,
        args_mode=given.get("args_mode", "digest"),
        commit_to=commit,
        extra=given.get("extra"),
    )
    shown = {name: value for name, value in members.items() if name not in commit}
    return Call(request_id, written, executes, bodies.agent_of(shown), _as_of(histories))


def _histories(given: History | Sequence[History] | None) -> list[History]:
    if given is None:
        return []
    return [given] if isinstance(given, History) else list(given)


def _as_of(histories: Sequence[History]) -> AsOf | None:
    if not histories:
        return None
    subjects = frozenset(subject for one in histories for subject in one.subjects)
    return AsOf(subjects, min(one.next_seq for one in histories))


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    if isinstance(values, str):
        raise DecisionClaims("`subjects`, `proven` and `facts` are lists; put the text into one")
    return None if values is None else list(values)
