"""Histories with proof: from a real log with a witness, and from logs that cheat."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from counterfoil import Gate, HistoryError, SigningKey, TlogProof, merkle
from counterfoil.checkpoints import Checkpoint, sign_checkpoint
from counterfoil.keys import COSIGNATURE_V1
from counterfoil.notes import NoteSignature
from stage import Stage, run


def gate_of(stage: Stage, directory: Path, key: SigningKey, **options: object) -> Gate:
    return Gate(directory, key, stage.url, stage.vkey, policy=stage.policy, **options)  # type: ignore[arg-type]


def decide(gate: Gate, action_class: str, *subjects: str, **more: object) -> str:
    with gate.decision(
        authenticated=True,
        operation="op",
        resource=subjects[0],
        action_class=action_class,
        subjects=list(subjects),
        **more,  # type: ignore[arg-type]
    ) as act:
        assert act.receipt_id is not None
        return act.receipt_id


def settled(gate: Gate, *subjects: str) -> object:
    """A history without anything pending: the log holds it all under a witnessed head."""
    assert gate.flush(20)
    until = time.monotonic() + 20
    while True:
        history = gate.history(*subjects)
        if not history.pending:
            return history
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_history_comes_from_the_log_with_proofs_and_two_gates_see_each_other(
    witnessed: Stage, tmp_path: Path
) -> None:
    first, second = SigningKey("gate.example/1", b"1" * 32), SigningKey("gate.example/2", b"2" * 32)
    for key in (first, second):
        witnessed.add_issuer(key.verifier)
    witnessed.start()
    with gate_of(witnessed, tmp_path / "one", first) as one, gate_of(witnessed, tmp_path / "two", second) as two:
        assert one.history("cust_1", when_unavailable="fail_open").classes == []
        mutation = decide(one, "BALANCE_READ", "cust_1")
        one.deny(authenticated=False, action_class="READ", subjects=["cust_1"])
        known = settled(one, "cust_1")
        history = two.history("cust_1")
        assert history.classes == ["BALANCE_READ"] == known.classes  # type: ignore[attr-defined]
        assert history.witnessed
        assert history.witnessed_at is not None
        assert history.logged[0].id == mutation
        assert history.heads["cust_1"] != mutation, "the denial advances the head"
        entry = one._outbox.receipt(history.logged[0].seq)
        assert entry is not None
        verified = TlogProof.parse(history.proof(0)).verify(entry.entry, witnessed.policy)
        assert verified.index == history.logged[0].index
        decide(two, "NOTE_WRITE", "cust_1", history=history)
        pending = two.history("cust_1", "cust_2")
        assert pending.classes == ["BALANCE_READ", "NOTE_WRITE"]
        settled(two, "cust_1")
        own = two.history("cust_1", own_only=True)
        assert own.classes == ["NOTE_WRITE"]
    # A gate that starts again has forgotten nothing: the log has not.
    with gate_of(witnessed, tmp_path / "two", second) as two:
        again = two.history("cust_1")
        assert again.classes == ["BALANCE_READ", "NOTE_WRITE"]
        two.deny(authenticated=True, action_class="READ", subjects=["cust_1"], history=again)
        settled(two, "cust_1")
    audit(witnessed, tmp_path, first, second)


def audit(stage: Stage, directory: Path, *keys: SigningKey) -> None:
    """The auditor's own program finds nothing wrong with what the gates said they judged by."""
    (directory / "policy").write_text(
        stage.policy.replace(
            f"witness w1 {stage.witness_vkey}", f"witness w1 {stage.witness_vkey} http://127.0.0.1:{stage.witness_port}"
        )
    )
    (directory / "issuers").write_text("".join(f"{key.verifier}\n" for key in keys))
    run("verify", "fetch", "--policy", directory / "policy", "--out", directory / "bundle")
    ended = run(
        "verify",
        "audit",
        "--policy",
        directory / "policy",
        "--issuers",
        directory / "issuers",
        directory / "bundle",
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_without_a_witness_a_history_is_refused_or_says_that_it_has_none(
    stage: Stage, tmp_path: Path, key: SigningKey
) -> None:
    stage.add_issuer(key.verifier)
    stage.start()
    with gate_of(stage, tmp_path / "outbox", key) as gate:
        decide(gate, "READ", "cust_1")
        assert gate.flush(20)
        with pytest.raises(HistoryError) as refused:
            gate.history("cust_1")
        assert refused.value.code == "history-unavailable"
        history = gate.history("cust_1", when_unavailable="fail_open")
        assert (history.classes, history.witnessed) == (["READ"], False)
        assert history.members()["history"]["why"]
        decide(gate, "READ", "cust_1", history=history)


def test_without_a_log_only_the_own_memory_is_left_and_says_so(lonely: Callable[..., Gate]) -> None:
    gate = lonely()
    decide(gate, "READ", "cust_1")
    history = gate.history("cust_1", when_unavailable="fail_open", seconds=1)
    assert (history.classes, history.size, history.witnessed) == (["READ"], 0, False)
    decide(gate, "READ", "cust_2", history=history)
    decide(gate, "READ", "cust_1", history=history)
    with pytest.raises(HistoryError) as moved:
        decide(gate, "READ", "cust_1", history=history)
    assert moved.value.code == "history-moved"
    with pytest.raises(HistoryError, match="without a policy that asks for witnesses"):
        gate.history("cust_1", seconds=1)


def test_an_old_witnessed_head_is_too_old(witnessed: Stage, tmp_path: Path, key: SigningKey) -> None:
    witnessed.add_issuer(key.verifier)
    witnessed.start()
    ahead = [0]
    with gate_of(witnessed, tmp_path / "outbox", key, clock=lambda: time.time_ns() // 1_000_000 + ahead[0]) as gate:
        decide(gate, "READ", "cust_1")
        settled(gate, "cust_1")
        witnessed.stop("witness")
        ahead[0] = 3_600_000
        with pytest.raises(HistoryError, match="seconds old"):
            gate.history("cust_1", seconds=2)
        ahead[0] = 0
        assert gate.history("cust_1").witnessed


def test_one_witness_with_a_fresh_or_future_date_keeps_no_old_head_fresh(lonely: Callable[..., Gate]) -> None:
    log, now = SigningKey("log.example/agents", bytes([9]) * 32), 1_790_000_000_000
    keys = [SigningKey(f"witness.example/{name}", bytes([name]) * 32, COSIGNATURE_V1) for name in (1, 2, 3)]
    lines = [f"log {log.verifier}", *(f"witness w{n} {key.verifier}" for n, key in enumerate(keys))]
    policy = "\n".join([*lines, "group g 2 w0 w1 w2", "quorum g", ""])
    gate = lonely(policy=policy, clock=lambda: now)

    def witnessed_at(*seconds_ago: int) -> float | None:
        head = sign_checkpoint(0, merkle.EMPTY_ROOT, log)
        text = head.decode().split("\n\n")[0] + "\n"
        for key, ago in zip(keys, seconds_ago, strict=False):
            at = now // 1000 - ago
            signed = key.sign(f"cosignature/v1\ntime {at}\n{text}".encode())
            head += NoteSignature(key.name, key.verifier.id, at.to_bytes(8, "big") + signed).line().encode() + b"\n"
        offered = Checkpoint.parse(head)
        offered.verify(log.verifier)
        return gate._follower._judged(offered).witnessed_at

    assert witnessed_at(5, 60) == now // 1000 - 60
    assert witnessed_at(1, 86_400) == now // 1000 - 86_400
    assert witnessed_at(-10_000_000, 60, 90) == now // 1000 - 90
    assert witnessed_at(-10_000_000, 60) is None
