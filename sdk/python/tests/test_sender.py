"""What the sender does with a log that is down, slow, wrong or hostile."""

from __future__ import annotations

import contextvars
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Literal

import pytest

from counterfoil import (
    Gate,
    HistoryError,
    Outbox,
    OutboxOtherLog,
    OutboxView,
    Refusal,
    SendError,
    SigningKey,
    honour,
    transport,
)
from counterfoil.merkle import leaf_hash
from counterfoil.outbox import NewBody
from fake_log import FakeLog, fake_log
from stage import PATIENCE, Stage, run, until


@pytest.fixture
def log() -> Iterator[FakeLog]:
    with fake_log() as made:
        yield made


@pytest.fixture
def gate(log: FakeLog, tmp_path: Path, key: SigningKey) -> Iterator[Gate]:
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as made:
        yield made


def note(gate: Gate, text: str = "x") -> None:
    gate.append({"type": "note", "text": text})


def signed_elsewhere(directory: Path, key: SigningKey, *texts: str) -> None:
    """An outbox that signed these without a log: another history, where the log has one of this key."""
    outbox = Outbox(directory, key)
    outbox.append([NewBody(json.dumps({"type": "note", "text": text})) for text in texts], 1_790_000_000_000)
    outbox.close()


def test_what_was_appended_is_sent_in_order_and_its_proofs_are_kept(gate: Gate, log: FakeLog, tmp_path: Path) -> None:
    for place in range(600):
        note(gate, str(place))
    assert gate.flush(PATIENCE)
    assert [json.loads(line.split(b"\n")[5]).get("text") for line in log.entries[1:]] == [str(n) for n in range(600)]
    assert max(log.batches) <= 256
    status = gate.status()
    assert (status.outbox.acknowledged, status.outbox.queued) == (601, 0)
    until(lambda: gate.status().sender.state == "working")
    gate.close()
    with OutboxView(tmp_path / "outbox") as view:
        assert view.verify() == []


@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("busy", "log-unreachable", "503 overloaded"),
        ("redirect", "log-unreachable", "redirects"),
        ("huge", "log-unreachable", "more than"),
        ("garbage", "not-a-log", "not what a log sends"),
        ("unknown-issuer", "unknown-issuer", "counterfoil-log issuer add"),
        ("no-log", "not-a-log", "is not a log"),
        ("slow", "log-unreachable", "no whole answer"),
    ],
)
def test_a_log_that_fails_is_tried_again_for_ever_and_said(
    log: FakeLog, tmp_path: Path, key: SigningKey, mode: str, code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "slow":
        monkeypatch.setattr(transport, "TOTAL_S", 2.0)
    log.mode = mode
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)

        def fails_as_it_should() -> bool:
            state = gate.status().sender
            return (state.state, state.code) == ("failing", code) and words in (state.sentence or "")

        until(fails_as_it_should)
        assert f'counterfoil_gate_sender_failing{{issuer="{key.name}"}} 1' in gate.metrics()
        assert not gate.flush(0.05)
        log.mode = "honest"
        assert gate.flush(PATIENCE)
        until(lambda: gate.status().sender.state == "working")


@pytest.mark.parametrize(("mode", "code"), [("wrong-proof", "bad-proof"), ("wrong-tree", "log-fork")])
def test_a_proof_that_does_not_hold_stops_the_sender_and_is_kept_as_an_alarm(
    log: FakeLog, tmp_path: Path, key: SigningKey, mode: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(honour, "EVERY_S", 0.2)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)
        assert gate.flush(PATIENCE)
        log.mode = mode
        note(gate)
        note(gate)
        until(lambda: gate.status().sender.state == "stopped")
        assert gate.status().sender.code == code
        assert gate.status().outbox.alarms == 1
        alarm = json.loads((gate.directory / "alarms").read_text())
        assert (alarm["what"], alarm["log"]) == (code, log.vkey)
        acknowledged = gate.status().outbox.acknowledged
        log.mode = "honest"
        note(gate)
        assert not gate.flush(0.3)
        assert gate.status().outbox.acknowledged == acknowledged


def test_another_stream_in_the_log_stops_sender_and_decisions(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    with Gate(tmp_path / "one", key, log.url, log.vkey) as one:
        note(one, "first")
        assert one.flush(PATIENCE)
    signed_elsewhere(tmp_path / "two", key, "second")
    with Gate(tmp_path / "two", key, log.url, log.vkey) as two:
        until(lambda: two.status().sender.state == "stopped")
        assert two.status().sender.code == "streams-differ"
        with pytest.raises(SendError) as refused, two.decision(authenticated=True):
            pytest.fail("nothing may run")
        assert refused.value.code == "streams-differ"
    with Gate(tmp_path / "three", key, log.url, log.vkey) as three:
        assert len(log.issuers[key.name]) == 2
        until(lambda: three.status().sender.state == "stopped")
        assert three.status().sender.code == "outbox-behind", "before it has signed anything"
        assert three.status().outbox.receipts == 0


@pytest.mark.parametrize("when_full", ["fail_closed", "fail_open"])
def test_a_gate_whose_key_signed_another_history_signs_nothing_new(
    when_full: Literal["fail_closed", "fail_open"], log: FakeLog, tmp_path: Path, key: SigningKey
) -> None:
    with Gate(tmp_path / "one", key, log.url, log.vkey) as one:
        note(one, "first")
        assert one.flush(PATIENCE)
    signed_elsewhere(tmp_path / "two", key, "second")
    with Gate(tmp_path / "two", key, log.url, log.vkey, when_full=when_full, heartbeat_ms=200) as two:
        until(lambda: two.status().sender.state == "stopped")
        count = two.status().outbox.receipts

        def decide() -> None:
            with two.decision(authenticated=True):
                pytest.fail("nothing may run")

        for sign in (
            decide,
            lambda: two.deny(authenticated=True),
            lambda: two.append({"type": "memory"}),
            lambda: two.reported("r-1", executed=True),
            lambda: two.rotate(key.generate(key.name)),
            lambda: two.end(0),
        ):
            with pytest.raises(SendError) as refused:
                sign()
            assert refused.value.code == "streams-differ"
        time.sleep(0.3)
        assert two.status().outbox.receipts == count
        assert two.status().dropped_actions == 0


@pytest.mark.parametrize("when_full", ["fail_closed", "fail_open"])
def test_what_ran_when_another_history_is_found_is_owed_and_not_signed(
    when_full: Literal["fail_closed", "fail_open"], log: FakeLog, tmp_path: Path, key: SigningKey
) -> None:
    with Gate(tmp_path / "one", key, log.url, log.vkey) as one:
        note(one, "first")
        assert one.flush(PATIENCE)
    signed_elsewhere(tmp_path / "two", key, "second")
    log.mode = "busy"
    two = Gate(tmp_path / "two", key, log.url, log.vkey, when_full=when_full)
    scopes = [two.decision(authenticated=True, request_id=f"r-{n}") for n in range(2)]
    with two:
        for scope in scopes:
            contextvars.copy_context().run(scope.__enter__)
        log.mode = "honest"
        until(lambda: two.status().sender.code == "streams-differ")
        count = two.status().outbox.receipts
        if when_full == "fail_closed":
            with pytest.raises(SendError) as refused:
                scopes[0].__exit__(None, None, None)
            assert refused.value.code == "streams-differ"
        else:
            scopes[0].__exit__(None, None, None)
        scopes[1].__exit__(ValueError, ValueError("of its own"), None)
        status = two.status()
        assert (status.outbox.receipts, status.open_decisions, status.owed) == (count, 2, 2)
        assert f'counterfoil_gate_owed{{issuer="{key.name}"}} 2\n' in two.metrics()
    log.mode = "busy"
    with Gate(tmp_path / "two", key, log.url, log.vkey) as again:
        until(lambda: again.status().owed == 0)
        assert again.status().open_decisions == 0
    with OutboxView(tmp_path / "two") as view:
        assert [(r.body["executed"], r.body["unknown"]) for r in view.receipts() if r.type == "outcome"] == [
            (False, True), (False, True),
        ]  # fmt: skip


def crashed(directory: Path, key: SigningKey, log: FakeLog, *requests: str) -> None:
    """Leaves an outbox as a gate does that is killed inside scopes, all of it in the log."""
    gate = Gate(directory, key, log.url, log.vkey)
    for request_id in requests or ("left",):
        contextvars.copy_context().run(gate.decision(authenticated=True, request_id=request_id).__enter__)
    assert gate.flush(PATIENCE)
    # Its scope stays open, so that it still has the outbox.
    gate.close()
    gate._outbox.close()


def test_a_start_compares_with_the_log_before_it_settles_what_was_left(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log takes its time, and is not given up meanwhile.
    monkeypatch.setattr(transport, "TOTAL_S", 2 * PATIENCE)
    crashed(tmp_path / "outbox", key, log, "left", "again")
    answer, asked, may_answer = log.issuer, threading.Event(), threading.Event()

    def late(request: BaseHTTPRequestHandler, name: str) -> None:
        asked.set()
        may_answer.wait(PATIENCE)
        answer(request, name)

    log.issuer = late  # type: ignore[method-assign]
    # It opens, and decides, without the log.
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        assert asked.wait(PATIENCE)
        with gate.decision(authenticated=True, request_id="new"):
            pass
        assert (gate.status().outbox.receipts, gate.status().open_decisions, gate.status().owed) == (5, 2, 2)
        # The same request once more: what became of it is said first.
        gate.deny(authenticated=True, request_id="again")
        assert (gate.status().outbox.receipts, gate.status().open_decisions, gate.status().owed) == (7, 1, 1)
        may_answer.set()
        assert gate.flush(PATIENCE)
        assert (gate.status().open_decisions, gate.status().owed) == (0, 0)
        assert gate.status().outbox.acknowledged == 8
    with OutboxView(tmp_path / "outbox") as view:
        in_order = [r.type for r in view.receipts()]
        assert in_order == [
            "open", "decision", "decision", "decision", "outcome", "outcome", "decision", "outcome",
        ]  # fmt: skip
        told = {str(r.body["request_id"]): r.body for r in view.receipts() if r.type == "outcome"}
    assert [told[name].get("unknown") for name in ("left", "again", "new")] == [True, True, None]


def test_an_older_copy_of_an_outbox_does_not_settle_what_the_newest_one_has_settled(
    log: FakeLog, tmp_path: Path, key: SigningKey
) -> None:
    crashed(tmp_path / "outbox", key, log)
    shutil.copytree(tmp_path / "outbox", tmp_path / "copy")
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as newest:
        assert newest.flush(PATIENCE)
    before = os.stat(tmp_path / "copy" / "receipts").st_size
    with Gate(tmp_path / "copy", key, log.url, log.vkey) as older:
        until(lambda: older.status().sender.state == "stopped")
        assert older.status().sender.code == "outbox-behind"
        until(lambda: not older._ledger._left)
        assert older.status().owed == 1
        with pytest.raises(SendError):
            older.end(0)
    assert os.stat(tmp_path / "copy" / "receipts").st_size == before, "nothing was signed"


def test_a_stream_that_ends_before_the_log_answers_settles_what_was_left_first(
    log: FakeLog, tmp_path: Path, key: SigningKey
) -> None:
    crashed(tmp_path / "outbox", key, log)
    log.mode = "slow"
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        assert not gate.end(0)
    with OutboxView(tmp_path / "outbox") as view:
        assert [receipt.type for receipt in view.receipts()] == ["open", "decision", "outcome", "close"]


def test_a_log_that_lost_what_it_proved_is_an_alarm(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)
        assert gate.flush(PATIENCE)
    log.entries.clear()
    log.issuers.clear()
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)
        until(lambda: gate.status().sender.state == "stopped")
        assert gate.status().sender.code == "log-lost"
        assert gate.status().outbox.alarms == 1


def test_a_log_whose_head_does_not_contain_a_kept_one_is_an_alarm(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look that failed is made again.
    monkeypatch.setattr(honour, "EVERY_S", 0.2)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)
        assert gate.flush(PATIENCE)
    log.entries[0:0] = [b"slipped in"]
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        until(lambda: gate.status().outbox.alarms == 1)
        until(lambda: gate.status().sender.state == "stopped")
        assert gate.status().sender.code == "log-fork"
        alarm = json.loads((gate.directory / "alarms").read_text())
        assert alarm["held"] != alarm["offered"]


def test_wrong_tiles_accuse_nobody(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(honour, "EVERY_S", 0.05)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        note(gate)
        assert gate.flush(PATIENCE)
    log.static = lambda request, path: log.send(request, bytes(64))  # type: ignore[method-assign]
    log.entries.append(b"another's")
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        before = len(log.requests)
        until(lambda: len(log.requests) > before + 2 or any(path.startswith("/tile") for _, path in log.requests))
        assert gate.status().outbox.alarms == 0


def test_an_outbox_goes_to_one_log_only(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    Gate(tmp_path / "outbox", key, log.url, log.vkey).close()
    other = SigningKey("log.example/other", b"o" * 32).verifier
    with pytest.raises(OutboxOtherLog) as refused:
        Gate(tmp_path / "outbox", key, log.url, other)
    assert refused.value.code == "outbox-other-log"


def test_a_log_that_signs_two_histories_or_rolls_back_is_not_judged_by(
    log: FakeLog, tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who looks by timer would keep alarms of its own, on a machine that takes so long.
    monkeypatch.setattr(honour, "EVERY_S", 86_400.0)
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        for _ in range(3):
            note(gate)
        assert gate.flush(PATIENCE)
        assert gate.history("a", when_unavailable="fail_open").size == 4
        kept = list(log.entries)

        def refused(code: str) -> None:
            """Its new head is never believed; who fails open goes on by what was read before, and says so."""
            with pytest.raises(HistoryError) as error:
                gate.history("a")
            assert error.value.code == code
            before = gate.history("a", when_unavailable="fail_open")
            assert (before.size, before.witnessed) == (4, False)
            assert before.why

        log.entries = kept[:2]
        refused("log-rolled-back")
        log.entries = [b"other", *kept[1:], b"more"]
        with pytest.raises(HistoryError) as forked:
            gate.history("a")
        assert forked.value.code == "log-fork"
        # Nothing of it counts, and what was read before does.
        assert gate.history("a", when_unavailable="fail_open").size == 4
        log.entries = [b"other", *kept[1:]]
        with pytest.raises(HistoryError) as same_size:
            gate.history("a")
        assert same_size.value.code == "log-fork"
        alarms = gate.status().outbox.alarms
        with pytest.raises(HistoryError):
            gate.history("a")
        assert gate.status().outbox.alarms == alarms, "an alarm is kept once"
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        with pytest.raises(HistoryError) as after_restart:
            gate.history("a")
        assert after_restart.value.code == "log-fork", "the largest head seen is durable"


def test_a_log_that_leaves_entries_out_is_not_judged_by(log: FakeLog, tmp_path: Path, key: SigningKey) -> None:
    with Gate(tmp_path / "outbox", key, log.url, log.vkey) as gate:
        with gate.decision(authenticated=True, action_class="READ", subjects=["a"]):
            pass
        assert gate.flush(PATIENCE)
        honest = log.static

        def without_decisions(request: object, path: str) -> None:
            entries, log.entries = log.entries, [log.entries[0], b"nothing", *log.entries[2:]]
            honest(request, path)  # type: ignore[arg-type]
            log.entries = entries

        log.static = without_decisions  # type: ignore[method-assign]
        with pytest.raises(HistoryError, match="do not hash"):
            gate.history("a")
        log.static = honest  # type: ignore[method-assign]
        history = gate.history("a", when_unavailable="fail_open")
        assert [one.id for one in history.logged] == [leaf_hash(log.entries[1]).hex()]


def test_a_log_that_is_down_gets_everything_in_order_when_it_is_up_again(
    stage: Stage, tmp_path: Path, key: SigningKey
) -> None:
    stage.add_issuer(key.verifier)
    stage.start()
    with Gate(tmp_path / "outbox", key, stage.url, stage.vkey) as gate:
        note(gate)
        assert gate.flush(PATIENCE)
        stage.stop("log")
        for place in range(1200):
            note(gate, str(place))
        until(lambda: gate.status().sender.state == "failing")
        assert (gate.status().oldest_queued_s or 0) > 0
        stage.start()
        assert gate.flush(PATIENCE)
        until(lambda: gate.status().sender.state == "working")
        assert stage.issuer(key.name)["next_seq"] == 1202
    assert "0 faults" in run("outbox", "verify", "--outbox", tmp_path / "outbox").stdout


def test_the_last_word_of_a_stream(gate: Gate, log: FakeLog) -> None:
    with gate.decision(authenticated=True) as act:
        assert act.receipt_id
    assert gate.end(PATIENCE)
    assert gate.status().outbox.closed

    def decide() -> None:
        with gate.decision(authenticated=True):
            pytest.fail("nothing may run")

    for sign in (
        decide,
        lambda: note(gate),
        lambda: gate.deny(authenticated=True),
        lambda: gate.allow(authenticated=True),
        lambda: gate.end(0),
        lambda: gate.rotate(SigningKey.generate(gate.issuer)),
    ):
        with pytest.raises(Refusal, match="go on under a new issuer name, with a new key and a new outbox") as refused:
            sign()
        assert refused.value.code == "closed"
