"""Counterfoil for gates: receipts of what was allowed and denied, durable before the action runs.

Start with :class:`Gate`. Everything else is there for those who read receipts, proofs and outboxes themselves.
"""

from .decision import DecisionMembers
from .errors import (
    CallerError,
    CounterfoilError,
    CredentialShaped,
    DecisionClaims,
    FormatError,
    HistoryError,
    NoSuchDecision,
    OutboxBusy,
    OutboxDamaged,
    OutboxDisk,
    OutboxError,
    OutboxFull,
    OutboxOtherKey,
    OutboxOtherLog,
    OutboxStopped,
    OutboxWriter,
    ProofError,
    Refusal,
    ReservedType,
    ScopeOnly,
    SendError,
)
from .gate import Gate, GateStatus, Written
from .history import History
from .keys import SigningKey, VerifierKey
from .outbox import Outbox, OutboxStatus, OutboxView
from .policy import Policy
from .proofs import TlogProof, VerifiedProof
from .receipts import Receipt
from .scope import Act, DecisionScope, OutcomeUnknown, current_act
from .sender import SenderState

__version__ = "0.1.0"

__all__ = [
    "Act",
    "CallerError",
    "CounterfoilError",
    "CredentialShaped",
    "DecisionClaims",
    "DecisionMembers",
    "DecisionScope",
    "FormatError",
    "Gate",
    "GateStatus",
    "History",
    "HistoryError",
    "NoSuchDecision",
    "Outbox",
    "OutboxBusy",
    "OutboxDamaged",
    "OutboxDisk",
    "OutboxError",
    "OutboxFull",
    "OutboxOtherKey",
    "OutboxOtherLog",
    "OutboxStatus",
    "OutboxStopped",
    "OutboxView",
    "OutboxWriter",
    "OutcomeUnknown",
    "Policy",
    "ProofError",
    "Receipt",
    "Refusal",
    "ReservedType",
    "ScopeOnly",
    "SendError",
    "SenderState",
    "SigningKey",
    "TlogProof",
    "VerifiedProof",
    "VerifierKey",
    "Written",
    "__version__",
    "current_act",
]
