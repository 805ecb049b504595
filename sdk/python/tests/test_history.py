"""Histories with proof: from a real log with a witness, and from logs that cheat."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counterfoil import Gate, History, HistoryError, OutboxDamaged, SigningKey, TlogProof, bodies, follower, merkle
from counterfoil.checkpoints import Checkpoint, sign_checkpoint
from counterfoil.index import LogIndex
from counterfoil.keep import Folder
from counterfoil.keys import COSIGNATURE_V1
from counterfoil.notes import NoteSignature
from counterfoil.receipts import NO_RECEIPT, sign_receipt
from counterfoil.witnessed import witnessed_at
from fake_log import KEY as FAKE_LOG_KEY
from fake_log import FakeLog, fake_log
from stage import PATIENCE, Stage, run, until


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


def witnessed_history(gate: Gate, *subjects: str, own_only: bool = False) -> History:
    """A history under a witnessed head, however long the witness takes for it."""
    found: list[History] = []

    def is_there() -> bool:
        try:
            found.append(gate.history(*subjects, own_only=own_only, seconds=PATIENCE))
        except HistoryError as error:
            assert error.code == "history-unavailable"
            return False
        return True

    until(is_there)
    return found[-1]


def settled(gate: Gate, *subjects: str) -> History:
    """A history without anything pending: the log holds it all under a witnessed head."""
    assert gate.flush(PATIENCE)
    until(lambda: not witnessed_history(gate, *subjects).pending)
    return witnessed_history(gate, *subjects)


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
        history = witnessed_history(two, "cust_1")
        assert history.classes == ["BALANCE_READ"] == known.classes
        assert history.witnessed
        assert history.witnessed_at is not None
        assert history.logged[0].id == mutation
        assert history.heads["cust_1"] != mutation, "the denial advances the head"
        entry = one._outbox.receipt(history.logged[0].seq)
        assert entry is not None
        verified = TlogProof.parse(history.proof(0)).verify(entry.entry, witnessed.policy)
        assert verified.index == history.logged[0].index
        decide(two, "NOTE_WRITE", "cust_1", history=history)
        pending = witnessed_history(two, "cust_1", "cust_2")
        assert pending.classes == ["BALANCE_READ", "NOTE_WRITE"]
        settled(two, "cust_1")
        own = witnessed_history(two, "cust_1", own_only=True)
        assert own.classes == ["NOTE_WRITE"]
    # A gate that starts again has forgotten nothing: the log has not.
    with gate_of(witnessed, tmp_path / "two", second) as two:
        again = witnessed_history(two, "cust_1")
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
        assert gate.flush(PATIENCE)
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
        # What came last may not have been cosigned before its witness went.
        with pytest.raises(HistoryError, match=r"seconds old|lacks the quorum"):
            gate.history("cust_1", seconds=PATIENCE)
        ahead[0] = 0
        assert gate.history("cust_1").witnessed


def test_one_witness_with_a_fresh_or_future_date_keeps_no_old_head_fresh(lonely: Callable[..., Gate]) -> None:
    log, now = SigningKey("log.example/agents", bytes([9]) * 32), 1_790_000_000_000
    keys = [SigningKey(f"witness.example/{name}", bytes([name]) * 32, COSIGNATURE_V1) for name in (1, 2, 3)]
    lines = [f"log {log.verifier}", *(f"witness w{n} {key.verifier}" for n, key in enumerate(keys))]
    policy = "\n".join([*lines, "group g 2 w0 w1 w2", "quorum g", ""])
    gate = lonely(policy=policy, clock=lambda: now)

    def told(*seconds_ago: int) -> float | None:
        head = sign_checkpoint(0, merkle.EMPTY_ROOT, log)
        text = head.decode().split("\n\n")[0] + "\n"
        for key, ago in zip(keys, seconds_ago, strict=False):
            at = now // 1000 - ago
            signed = key.sign(f"cosignature/v1\ntime {at}\n{text}".encode())
            head += NoteSignature(key.name, key.verifier.id, at.to_bytes(8, "big") + signed).line().encode() + b"\n"
        offered = Checkpoint.parse(head)
        offered.verify(log.verifier)
        return witnessed_at(offered, gate.policy, now)[0]

    assert told(5, 60) == now // 1000 - 60
    assert told(1, 86_400) == now // 1000 - 86_400
    assert told(-10_000_000, 60, 90) == now // 1000 - 90
    assert told(-10_000_000, 60) is None


# What is kept of a log from one start to the next.


@pytest.fixture
def log() -> Iterator[FakeLog]:
    with fake_log() as made:
        yield made


def signed(key: SigningKey, count: int, prefix: str = "C") -> list[bytes]:
    """The stream of a gate that allowed so many actions on two subjects in turn."""
    seq, prev, entries = 0, NO_RECEIPT, []
    for place in range(count):
        body = bodies.opened(str(key.verifier))
        if place:
            members = {"authenticated": True, "action_class": f"{prefix}{place}", "subjects": [f"s{place % 2}"]}
            body = bodies.decision("allow", f"r-{place}", {**members, "executes": "none"}).text
        receipt = sign_receipt(body, seq=seq, prev=prev, issued_at=1_790_000_000_000 + place, key=key)
        seq, prev = seq + 1, receipt.id
        entries.append(receipt.entry)
    return entries


OTHER = SigningKey("gate.example/other", b"o" * 32)
ENTRIES = signed(OTHER, 700)


def known(log: FakeLog, directory: Path, key: SigningKey, *subjects: str) -> History:
    """What a gate that starts now knows, by whatever it kept."""
    with Gate(directory, key, log.url, log.vkey) as gate:
        return gate.history(*subjects or ("s0", "s1"), when_unavailable="fail_open", seconds=PATIENCE)


def pages(log: FakeLog) -> list[str]:
    """The pages of entries asked for since the last time."""
    asked = [path for _, path in log.requests if "/entries/" in path]
    log.requests.clear()
    return asked


def test_a_start_with_what_was_kept_fetches_only_what_is_new(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    log.entries = ENTRIES[:600]
    assert known(log, tmp_path / "outbox", key).size == 600
    assert len(pages(log)) == 3
    log.entries = list(ENTRIES)
    history = known(log, tmp_path / "outbox", key)
    assert pages(log) == ["/tile/entries/002.p/188"]
    anew = known(log, tmp_path / "anew", key)
    assert len(pages(log)) == 3
    assert history == anew
    assert history.classes == [f"C{n}" for n in range(1, 700)]
    assert known(log, tmp_path / "anew", key) == anew
    assert pages(log) == [], "all of it was kept, and the head has not moved"


def snapshot_of(directory: Path, key: SigningKey, entries: list[bytes], log_key: SigningKey = FAKE_LOG_KEY) -> None:
    """Keeps a snapshot that says that the log holds these, as whoever has the key can write it."""
    index = LogIndex()
    for entry in entries:
        index.add(entry, merkle.leaf_hash(entry))
    assert Folder(directory, log_key.verifier, lambda: key).keep_index(index)


TAMPERINGS: dict[str, Callable[[bytes], bytes]] = {
    "nothing in it": lambda data: b"",
    "one bit": lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:],
    "one class": lambda data: data.replace(b'"C7"', b'"C8"', 1),
    "a subject left out": lambda data: b"\n".join(line for line in data.split(b"\n") if not line.startswith(b'["s1"')),
    "a line at the end": lambda data: data + b"{}\n",
    "cut": lambda data: data[: len(data) // 2],
    "no text": lambda data: b"\xff" * len(data),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_snapshot_that_was_changed_changes_no_answer(
    log: FakeLog, tmp_path: Path, key: SigningKey, tampering: str
) -> None:
    log.entries = ENTRIES[:600]
    truth = known(log, tmp_path / "outbox", key)
    path = tmp_path / "outbox/history/snapshot-python"
    whole = path.read_bytes()
    path.write_bytes(TAMPERINGS[tampering](whole))
    assert path.read_bytes() != whole
    pages(log)
    assert known(log, tmp_path / "outbox", key) == truth
    assert len(pages(log)) == 3, "it was read anew"
    assert known(log, tmp_path / "outbox", key) == truth
    assert pages(log) == [], "and kept again"


def test_a_snapshot_of_another_key_log_or_history_changes_no_answer(
    log: FakeLog, tmp_path: Path, key: SigningKey
) -> None:
    log.entries = ENTRIES[:600]
    truth = known(log, tmp_path / "outbox", key)
    kept = tmp_path / "outbox/history"
    lie = signed(OTHER, 600, prefix="LIE")

    def is_read_anew(asked: int = 3) -> None:
        pages(log)
        assert known(log, tmp_path / "outbox", key) == truth
        assert len(pages(log)) == asked

    is_read_anew(0)
    # Another issuer's gate kept it.
    snapshot_of(kept, OTHER, ENTRIES[:600])
    is_read_anew()
    # Of another log, by the same key.
    snapshot_of(kept, key, ENTRIES[:300], SigningKey("log.example/2", b"2" * 32))
    is_read_anew()
    # What this log does not hold: shown by the held head, also while the log is away, or by the log's own tiles.
    snapshot_of(kept, key, lie)
    is_read_anew()
    snapshot_of(kept, key, lie)
    log.mode = "busy"
    assert known(log, tmp_path / "outbox", key).size == 0
    log.mode = "honest"
    snapshot_of(kept, key, lie[:300])
    is_read_anew()
    # Further than the largest head that was ever believed, or without one.
    snapshot_of(kept, key, ENTRIES)
    is_read_anew()
    (kept / "head").unlink()
    is_read_anew()
    # An older one is gone on from.
    snapshot_of(kept, key, ENTRIES[:300])
    is_read_anew(2)


def test_what_is_kept_belongs_to_the_key_that_signs_now(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    log.entries = ENTRIES[:600]
    new = SigningKey(key.name, b"n" * 32)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        gate.rotate(new)
        assert gate.flush(PATIENCE)
        gate.history("s0", when_unavailable="fail_open", seconds=PATIENCE)
    pages(log)
    assert known(log, tmp_path / "outbox", new).size == 602
    assert pages(log) == []


def test_a_head_that_is_damaged_is_never_taken_for_none(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    log.entries = ENTRIES[:600]
    truth = known(log, tmp_path / "outbox", key)
    path = tmp_path / "outbox/history/head"
    whole = path.read_bytes()
    head = Checkpoint.parse(whole)
    path.write_bytes(whole.replace(b"\n600\n", b"\n1\n"))
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        for _ in range(2):
            with pytest.raises(OutboxDamaged, match="restore it"):
                gate.history("s0", when_unavailable="fail_open")
        path.write_bytes(whole)
        assert gate.history("s0", "s1", when_unavailable="fail_open", seconds=PATIENCE) == truth
    # As earlier versions wrote it.
    path.write_text(json.dumps({"size": 600, "root": "", "checkpoint": whole.decode()}))
    log.entries = ENTRIES[:500]
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        with pytest.raises(HistoryError) as refused:
            gate.history("s0", seconds=PATIENCE)
        assert refused.value.code == "log-rolled-back"
    assert head.size == 600


def test_calls_that_are_too_short_read_a_log_to_its_end_together(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_BATCH_PAGES", 1)
    log.entries = list(ENTRIES)
    static = log.static

    def slowly(request: object, path: str) -> None:
        time.sleep(0.3)
        static(request, path)  # type: ignore[arg-type]

    log.static = slowly  # type: ignore[method-assign]
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        sizes, seconds = [0], [0.4]

        def is_read() -> bool:
            # On whatever machine it is, at some length it is long enough for one page.
            seconds[0] *= 2
            sizes.append(gate.history("s0", when_unavailable="fail_open", seconds=seconds[0]).size)
            return sizes[-1] == 700

        until(is_read)
        assert sizes == sorted(sizes)
        assert gate.history("s0", "s1", when_unavailable="fail_open").classes == [f"C{n}" for n in range(1, 700)]


def test_entries_that_the_head_does_not_vouch_for_take_nothing_from_those_before(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_BATCH_PAGES", 1)
    log.entries = list(ENTRIES)
    static = log.static

    def without_the_last(request: object, path: str) -> None:
        if path == "tile/entries/002.p/188":
            return log.send(request, merkle.encode_page([*ENTRIES[512:-1], b"nothing"]))  # type: ignore[arg-type]
        static(request, path)  # type: ignore[arg-type]

    log.static = without_the_last  # type: ignore[method-assign]
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        history = gate.history("s0", "s1", when_unavailable="fail_open", seconds=PATIENCE)
        assert (history.size, history.root) == (512, merkle.root_of(map(merkle.leaf_hash, ENTRIES[:512])))
        assert history.classes == [f"C{n}" for n in range(1, 512)]
        assert "do not hash" in (history.why or "")
        with pytest.raises(HistoryError):
            history.proof(0)
        log.static = static  # type: ignore[method-assign]
        assert gate.history("s0", when_unavailable="fail_open", seconds=PATIENCE).size == 700


def test_a_call_that_is_interrupted_leaves_nothing_half_counted(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.entries = ENTRIES[:300]
    add, left = LogIndex.add, [200]

    def interrupted(index: LogIndex, entry: bytes, leaf: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            index._frontier.append(leaf)
            raise KeyboardInterrupt
        add(index, entry, leaf)

    monkeypatch.setattr(LogIndex, "add", interrupted)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        with pytest.raises(KeyboardInterrupt):
            gate.history("s0")
        history = gate.history("s0", "s1", when_unavailable="fail_open", seconds=PATIENCE)
        assert history.classes == [f"C{n}" for n in range(1, 300)]


def test_own_decisions_are_pending_until_the_log_shows_them_and_are_not_read_again(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.entries = ENTRIES[:600]
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        decide(gate, "MINE", "s0")
        assert gate.flush(PATIENCE)
        assert gate.history("s0", when_unavailable="fail_open", seconds=PATIENCE).pending == ()
        monkeypatch.setattr(log, "mode", "busy")
        last = decide(gate, "LATER", "s0")
        history = gate.history("s0", when_unavailable="fail_open", own_only=True)
        assert [one.action_class for one in (*history.logged, *history.pending)] == ["MINE", "LATER"]
        assert history.heads == {"s0": last}
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        again = gate.history("s0", when_unavailable="fail_open", own_only=True)
        assert (again.classes, again.size, again.next_seq) == (["MINE", "LATER"], history.size, 5)
        # Of the outbox only what the log does not show is read.
        assert [one.seq for one, _ in gate._histories._pending._own] == [3]
