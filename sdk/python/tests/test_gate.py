"""Scopes, outcomes, room, drops, time, forks, keys: everything that needs no log."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil import (
    Act,
    CounterfoilError,
    CredentialShaped,
    DecisionClaims,
    DecisionScope,
    Gate,
    NoSuchDecision,
    Outbox,
    OutboxBusy,
    OutboxDisk,
    OutboxFull,
    OutboxOtherKey,
    OutboxStopped,
    OutboxView,
    OutboxWriter,
    OutcomeUnknown,
    ReservedType,
    ScopeOnly,
    SigningKey,
    appendfile,
    bodies,
    store,
)
from counterfoil.commitments import Disclosure
from counterfoil.errors import FormatError, HistoryError, JsonError, KeyFormatError, PolicyError
from stage import PATIENCE, until

Make = Callable[..., Gate]


def bodies_of(gate: Gate | Path) -> list[dict[str, Any]]:
    with OutboxView(gate.directory if isinstance(gate, Gate) else gate) as view:
        assert view.verify() == []
        return [receipt.body for receipt in view.receipts()]


def entered(scope: DecisionScope) -> Act:
    """Enters a scope that is not left here, or not in order: in a context of its own, which ends with it."""
    return contextvars.copy_context().run(scope.__enter__)


def outcome_of(gate: Gate) -> dict[str, Any]:
    last = bodies_of(gate)[-1]
    assert last["type"] == "outcome"
    return last


class GatewayTimeout(TimeoutError):
    """A timeout of an author's own."""


# How a scope ends.


def test_a_call_that_did_not_return_is_not_executed_whatever_the_body_does(lonely: Make) -> None:
    gate = lonely()

    async def refused() -> None:
        raise ConnectionError("refused")

    def told() -> tuple[Any, Any, Any]:
        outcome = outcome_of(gate)
        return outcome["executed"], outcome.get("unknown"), outcome.get("error")

    with gate.decision(authenticated=True) as act:
        with pytest.raises(ZeroDivisionError):
            act.call(lambda: 1 / 0)
    assert told() == (False, None, "ZeroDivisionError: division by zero")

    async def awaited() -> None:
        async with gate.decision(authenticated=True) as act:
            await act.call(refused)

    with pytest.raises(ConnectionError):
        asyncio.run(awaited())
    assert told() == (False, None, "ConnectionError: refused")

    async def left_running() -> None:
        async with gate.decision(authenticated=True) as act:
            task = asyncio.create_task(act.acall(asyncio.sleep, 60))
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(left_running())
    assert told() == (False, True, "cancelled")

    async def tried_again() -> None:
        async with gate.decision(authenticated=True) as act:
            with pytest.raises(ConnectionError):
                await act.acall(refused)
            assert await act.call(asyncio.sleep, 0, 7) == 7

    asyncio.run(tried_again())
    assert told() == (True, None, None)


def test_an_outcome_that_cannot_be_signed_as_it_is_goes_without_what_stands_in_the_way(lonely: Make) -> None:
    gate = lonely()
    secret = type("ghp_0123456789abcdefghijklmnopqrstuvwxyz", (Exception,), {})
    with pytest.raises(secret), gate.decision(authenticated=True):
        raise secret("m")
    assert outcome_of(gate)["error"] == "Error"
    # As an outbox may hold that was written when a request id could be as long as its entry.
    text = bodies.outcome(request_id="r" * 65_200, decision="ab" * 32, executed=True)
    assert set(json.loads(text)) == {"type", "decision", "executed", "executed_by"}
    gate.deny(authenticated=True)


def test_a_decision_is_durable_before_the_body_runs_and_its_outcome_follows(lonely: Make) -> None:
    gate = lonely()
    with gate.decision(
        authenticated=True, operation="mail.send", resource="r", args={"a": 1}, args_mode="clear"
    ) as act:
        on_disk = bodies_of(gate)
        assert [body["type"] for body in on_disk] == ["open", "decision"]
        act.result({"ok": True})
    outcome = outcome_of(gate)
    assert outcome["decision"] == act.receipt_id
    assert (outcome["executed"], outcome["executed_by"], outcome["executed_digest"]) == (
        True,
        "gate",
        act.action_digest,
    )
    assert outcome["result_digest"].startswith("sha256:")
    assert outcome["started_at"] <= outcome["ended_at"]
    assert "unknown" not in outcome


def test_an_exception_is_an_outcome_and_goes_on(lonely: Make) -> None:
    gate = lonely()
    with pytest.raises(ValueError, match="no such user"), gate.decision(authenticated=True):
        raise ValueError("no such user")
    assert (outcome_of(gate)["executed"], outcome_of(gate)["error"]) == (False, "ValueError: no such user")


def test_an_exception_after_the_call_returned_says_that_it_was_executed(lonely: Make) -> None:
    gate = lonely()

    def handle(answer: int) -> None:
        raise KeyError("later")

    with pytest.raises(KeyError), gate.decision(authenticated=True) as act:
        handle(act.call(lambda: 7))
    assert (outcome_of(gate)["executed"], outcome_of(gate)["error"]) == (True, "KeyError: 'later'")


def test_an_exception_inside_the_call_says_that_it_was_not(lonely: Make) -> None:
    gate = lonely()
    with (
        pytest.raises(ZeroDivisionError),
        gate.decision(authenticated=True, operation="o", resource="r", args={}, args_mode="clear") as act,
    ):
        act.call(lambda: 1 // 0)
    assert outcome_of(gate)["executed"] is False
    assert "executed_digest" not in outcome_of(gate)

    async def fail() -> None:
        raise ValueError("no")

    async def main() -> None:
        async with gate.decision(authenticated=True) as act:
            await act.acall(fail)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(main())
    assert outcome_of(gate)["executed"] is False


@pytest.mark.parametrize(
    ("error", "unknown", "said"),
    [
        (ConnectionError("refused"), None, "ConnectionError: refused"),
        (OutcomeUnknown("no answer"), True, "OutcomeUnknown: no answer"),
        (TimeoutError("no answer"), True, "TimeoutError: no answer"),
        (asyncio.TimeoutError("no answer"), True, "TimeoutError: no answer"),
        (concurrent.futures.TimeoutError("no answer"), True, "TimeoutError: no answer"),
        (GatewayTimeout("no answer"), True, "GatewayTimeout: no answer"),
        (KeyboardInterrupt(), True, "cancelled"),
    ],
)
def test_a_call_that_failed_was_not_executed_also_where_the_body_goes_on(
    lonely: Make, error: BaseException, unknown: bool | None, said: str
) -> None:
    gate = lonely()

    def fail() -> None:
        raise error

    with gate.decision(authenticated=True) as act, contextlib.suppress(BaseException):
        act.call(fail)
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome.get("unknown"), outcome["error"]) == (False, unknown, said)
    with gate.decision(authenticated=True) as act:
        with contextlib.suppress(BaseException):
            act.call(fail)
        act.not_executed("gave up")
    assert (outcome_of(gate)["executed"], outcome_of(gate)["error"]) == (False, "gave up")
    with gate.decision(authenticated=True) as act:
        with contextlib.suppress(BaseException):
            act.call(fail)
        act.call(lambda: 7)
    assert outcome_of(gate)["executed"] is True
    with pytest.raises(type(error)), gate.decision(authenticated=True):
        raise error
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome.get("unknown"), outcome["error"]) == (False, unknown, said)


def test_what_times_out_is_unknown_unless_it_had_returned(lonely: Make) -> None:
    gate = lonely()

    async def main() -> None:
        async with gate.decision(authenticated=True):
            await asyncio.wait_for(asyncio.sleep(3600), 0)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(main())
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome["unknown"]) == (False, True)
    with pytest.raises(TimeoutError), gate.decision(authenticated=True) as act:
        act.call(lambda: 7)
        raise TimeoutError("what came after it")
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome.get("unknown"), outcome["error"]) == (
        True, None, "TimeoutError: what came after it",
    )  # fmt: skip


@pytest.mark.parametrize("came_out", [TimeoutError("no answer"), OutcomeUnknown("no answer"), asyncio.CancelledError()])
def test_of_a_call_that_was_not_answered_nobody_knows_whatever_is_made_of_it(
    lonely: Make, came_out: BaseException
) -> None:
    gate = lonely()

    def fail(error: BaseException) -> None:
        raise error

    with pytest.raises(ValueError, match="its author's"), gate.decision(authenticated=True) as act:
        try:
            act.call(fail, came_out)
        except BaseException as error:
            raise ValueError("its author's") from error
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome["unknown"], outcome["error"]) == (False, True, "ValueError: its author's")
    with gate.decision(authenticated=True) as act:
        for error in (came_out, ConnectionError("refused the second time")):
            with contextlib.suppress(BaseException):
                act.call(fail, error)
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome["unknown"]) == (False, True)
    with gate.decision(authenticated=True) as act:
        with contextlib.suppress(BaseException):
            act.call(fail, came_out)
        act.not_executed("given up")
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome["unknown"], outcome["error"]) == (False, True, "given up")
    with gate.decision(authenticated=True) as act:
        with contextlib.suppress(BaseException):
            act.call(fail, came_out)
        act.call(lambda: 7)
    assert (outcome_of(gate)["executed"], outcome_of(gate).get("unknown")) == (True, None)


def test_a_call_that_is_running_when_its_scope_ends_is_unknown(lonely: Make) -> None:
    gate = lonely()

    async def main() -> None:
        answered = asyncio.Event()
        async with gate.decision(authenticated=True) as act:
            call = asyncio.create_task(act.acall(answered.wait))
            await asyncio.sleep(0)
        assert (outcome_of(gate)["executed"], outcome_of(gate)["unknown"]) == (False, True)
        answered.set()
        await call
        with pytest.raises(CounterfoilError) as refused:
            await act.acall(answered.wait)
        assert refused.value.code == "scope-only"

    asyncio.run(main())
    with gate.decision(authenticated=True) as act:
        pass
    ran: list[int] = []
    with pytest.raises(CounterfoilError):
        act.call(ran.append, 1)
    assert ran == []


def test_what_is_said_not_to_be_executed_is_not(lonely: Make) -> None:
    gate = lonely()
    with gate.decision(authenticated=True) as act:
        act.not_executed("the order was gone")
    assert (outcome_of(gate)["executed"], outcome_of(gate)["error"]) == (False, "the order was gone")


def test_a_secret_in_an_error_is_not_repeated(lonely: Make) -> None:
    gate = lonely()
    with pytest.raises(RuntimeError), gate.decision(authenticated=True):
        raise RuntimeError("GET https://user:hunter2@h.test failed")
    assert outcome_of(gate)["error"] == "RuntimeError"


def test_a_cut_that_makes_a_token_of_a_longer_word_is_not_told(lonely: Make) -> None:
    gate = lonely()
    word = "AKIA" + "A1" * 8
    message = "x" * (300 - len("RuntimeError: ") - len(word) - 1) + " " + word + "Z" * 30
    with pytest.raises(RuntimeError), gate.decision(authenticated=True):
        raise RuntimeError(message)
    assert outcome_of(gate)["error"] == "RuntimeError"
    gate.append({"type": "note"})


def test_what_a_gate_is_made_of_is_judged_when_it_opens(lonely: Make) -> None:
    for options in (
        {"policy_digest": "sha256:00"},
        {"heartbeat_ms": 1},
        {"when_full": "never"},
        {"policy": "quorum x\n"},
    ):
        with pytest.raises(CounterfoilError):
            lonely(**options)
    lonely()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_was_interrupted_is_unknown(lonely: Make, error: type[BaseException]) -> None:
    gate = lonely()
    with pytest.raises(error), gate.decision(authenticated=True):
        raise error
    outcome = outcome_of(gate)
    assert (outcome["executed"], outcome["unknown"], outcome["error"]) == (False, True, "cancelled")


def test_a_cancelled_task_leaves_an_unknown_outcome(lonely: Make) -> None:
    gate = lonely()

    runs = asyncio.Event()

    async def act() -> None:
        async with gate.decision(authenticated=True):
            runs.set()
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(act())
        await runs.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (outcome_of(gate)["unknown"], outcome_of(gate)["error"]) == (True, "cancelled")


def test_a_task_cancelled_while_its_decision_is_signed_leaves_no_decision_open(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lonely()
    decide = gate._decide
    began, may_sign, ran = threading.Event(), threading.Event(), []

    def slowly(call: Any) -> Any:
        began.set()
        may_sign.wait(PATIENCE)
        return decide(call)

    monkeypatch.setattr(gate, "_decide", slowly)

    async def act() -> None:
        async with gate.decision(authenticated=True):
            ran.append(True)

    async def main() -> None:
        task = asyncio.create_task(act())
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_sign.set()
        await asyncio.to_thread(until, lambda: gate.status().outbox.receipts == 3)

    asyncio.run(main())
    assert ran == []
    assert outcome_of(gate)["unknown"] is True
    assert gate.status().open_decisions == 0


def test_asyncio_scopes_call_coroutines(lonely: Make) -> None:
    gate = lonely()

    async def send(to: str) -> str:
        await asyncio.sleep(0)
        return to

    async def main() -> str:
        async with gate.decision(authenticated=True) as act:
            answer = await act.acall(send, "a")
            act.result(answer)
            return answer

    async def many() -> list[str]:
        return await asyncio.gather(*(main() for _ in range(50)))

    assert asyncio.run(many()) == ["a"] * 50
    assert sum(body["type"] == "outcome" for body in bodies_of(gate)) == 50


def test_no_parameter_says_that_something_was_executed(lonely: Make) -> None:
    gate = lonely()
    for body in ({"type": "outcome", "executed": True}, {"type": "decision"}, '{"type":"outcome","executed":true}'):
        with pytest.raises(ScopeOnly):
            gate.append(body)  # type: ignore[arg-type]
    for kind in ("open", "close", "rotate", "heartbeat", "dropped"):
        with pytest.raises(ReservedType):
            gate.append({"type": kind})
    with pytest.raises(TypeError):
        gate.decision(authenticated=True, executed=True)  # type: ignore[call-arg]
    with pytest.raises(DecisionClaims):
        gate.decision(authenticated=True, extra={"request_id": "r"})
    assert not any(name for name in dir(gate.decision(authenticated=True)) if "execute" in name.lower())


def test_a_scope_is_entered_once(lonely: Make) -> None:
    scope = lonely().decision(authenticated=True)
    with scope:
        pass
    with pytest.raises(CounterfoilError, match="entered once"), scope:
        pass


# What a decision may say.


def test_what_must_not_be_said_is_refused_before_anything_is_signed(lonely: Make) -> None:
    gate = lonely()
    with (
        pytest.raises(CredentialShaped) as secret,
        gate.decision(authenticated=True, args={"url": "https://u:p4ss@h.test"}, args_mode="clear"),
    ):
        pytest.fail("nothing may run")
    assert secret.value.member == "/args/url"
    assert "p4ss" not in str(secret.value)
    with pytest.raises(DecisionClaims):
        gate.deny(authenticated=True, bound_agent="a", proven=["nonce_fresh"])
    with pytest.raises(DecisionClaims):
        gate.decision(authenticated=True, subjects="cust_1")
    with pytest.raises(JsonError):
        gate.decision(authenticated=True, args={"n": 1 << 60})
    with pytest.raises(JsonError):
        gate.decision(authenticated=True, args={"n": object()})
    with pytest.raises(FormatError):
        gate.deny(authenticated=True, why="x" * 70_000)
    with pytest.raises(CounterfoilError):
        gate.deny(authenticated=True, capability={"max_calls": -1})
    assert gate.status().outbox.receipts == 0


def test_a_request_id_in_use_is_refused(lonely: Make) -> None:
    gate = lonely()
    first, second = (gate.decision(authenticated=True, request_id="r-1") for _ in range(2))
    with first, pytest.raises(DecisionClaims, match="r-1"), second:
        pytest.fail("nothing may run")


@pytest.mark.parametrize("member", ["request_id", "claimed_agent", "bound_agent", "session"])
def test_a_name_in_a_decision_has_at_most_1024_bytes(lonely: Make, member: str) -> None:
    gate = lonely()
    given: dict[str, Any] = {"authenticated": True, "proven": ["capability_signature"]}
    assert gate.deny(**given, **{member: "\u00e4" * 512}) is not None
    for refused in (gate.deny, gate.allow, gate.decision):
        with pytest.raises(DecisionClaims, match=member):
            refused(**given, **{member: "\u00e4" * 512 + "x"})
    with pytest.raises(DecisionClaims, match=member) if member != "request_id" else pytest.raises(DecisionClaims):
        gate.deny(**given, **{member: "x" * 1025}, commit=[member])
    assert gate.status().outbox.receipts == 2


def test_a_request_id_is_in_use_while_its_callers_word_is_awaited(lonely: Make) -> None:
    gate = lonely()
    gate.allow(authenticated=True, request_id="r-1")

    def refuse(gate: Gate) -> None:
        with pytest.raises(DecisionClaims, match="r-1"):
            gate.allow(authenticated=True, request_id="r-1")
        with pytest.raises(DecisionClaims, match="r-1"), gate.decision(authenticated=True, request_id="r-1"):
            pytest.fail("nothing may run")
        with pytest.raises(DecisionClaims, match="r-1"):
            gate.deny(authenticated=True, request_id="r-1")

    refuse(gate)
    gate.close()
    again = lonely()
    with pytest.raises(DecisionClaims, match="r-1"):
        again.allow(authenticated=True, request_id="r-1")
    refuse(again)
    again.reported("r-1", executed=True)
    again.allow(authenticated=True, request_id="r-1")
    again.reported("r-1", executed=False)


def test_a_committed_member_is_opened_by_what_stays_here(lonely: Make) -> None:
    gate = lonely()
    receipt = gate.deny(authenticated=True, why="password=hunter2 for https://u:p@h.test", commit=["why"])
    assert receipt is not None
    path = gate.directory / f"disclosures/{receipt.seq}.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    disclosure = Disclosure.parse(path.read_text().rstrip("\n"))
    assert disclosure.opens(receipt.body["why"])
    assert "hunter2" not in receipt.body_text


def test_disclosures_are_whole_where_the_system_takes_a_part_at_a_time(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lonely()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    receipt = gate.deny(authenticated=True, why="x", commit=["why"])
    assert receipt is not None
    kept = (gate.directory / f"disclosures/{receipt.seq}.jsonl").read_text()
    assert Disclosure.parse(kept.rstrip("\n")).opens(receipt.body["why"])


def test_disclosures_of_receipts_that_were_never_signed_go_at_the_next_start(lonely: Make) -> None:
    gate = lonely()
    gate.deny(authenticated=True, why="x", commit=["why"])
    gate.close()
    stray = gate.directory / "disclosures/77.jsonl"
    stray.write_text("{}\n")
    lonely()
    assert not stray.exists()
    assert (gate.directory / "disclosures/1.jsonl").exists()


def test_an_approval_carries_the_digest_of_the_action(lonely: Make) -> None:
    gate = lonely()
    with gate.decision(authenticated=True, operation="o", resource="r", args={}, args_mode="clear") as act:
        act.approved_by("ops@example")
    approval = bodies_of(gate)[2]
    assert (approval["type"], approval["digest"], approval["decision"]) == (
        "approval",
        act.action_digest,
        act.receipt_id,
    )


def test_the_callers_word_is_the_callers(lonely: Make) -> None:
    gate = lonely()
    assert gate.allow(authenticated=True, request_id="r-1", claimed_agent="mallory") is not None
    gate.reported("r-1", executed=True)
    assert "agent" not in outcome_of(gate)
    assert (outcome_of(gate)["executed"], outcome_of(gate)["executed_by"]) == (True, "caller")
    with pytest.raises(NoSuchDecision):
        gate.reported("r-1", executed=True)
    with pytest.raises(NoSuchDecision):
        gate.reported("r-9", executed=True)
    with gate.decision(authenticated=True, request_id="r-2"), pytest.raises(ScopeOnly):
        gate.reported("r-2", executed=True)
    gate.allow(authenticated=True, request_id="r-3")
    gate.close()
    again = lonely()
    again.reported("r-3", executed=False, error="timeout")
    assert (outcome_of(again)["executed"], outcome_of(again)["error"]) == (False, "timeout")


# Room, disks, drops.


def test_no_room_no_action(lonely: Make) -> None:
    gate = lonely(max_queued=6)
    with gate.decision(authenticated=True):
        with pytest.raises(OutboxFull) as full, gate.decision(authenticated=True), gate.decision(authenticated=True):
            pytest.fail("nothing may run")
        assert full.value.code == "outbox-full"
    assert len(bodies_of(gate)) <= 6
    with pytest.raises(OutboxFull):
        for _ in range(9):
            gate.append({"type": "note"})


def test_whatever_was_admitted_gets_its_outcome_also_when_the_outbox_is_full(lonely: Make) -> None:
    gate = lonely(max_queued=12)
    scopes = []
    with pytest.raises(OutboxFull):
        for _ in range(12):
            scope = gate.decision(authenticated=True)
            entered(scope)
            scopes.append(scope)
    for scope in scopes:
        scope.__exit__(None, None, None)
    assert len(scopes) >= 3
    assert gate.status().open_decisions == 0


def test_what_runs_without_a_receipt_is_counted_and_told_in_the_next_one(lonely: Make, tmp_path: Path) -> None:
    gate = lonely(max_queued=4, when_full="fail_open")
    ran = []
    for place in range(5):
        with gate.decision(authenticated=True, request_id=f"r-{place}") as act:
            ran.append(act.receipt_id)
    assert [receipt is None for receipt in ran] == [False, True, True, True, True]
    assert gate.deny(authenticated=True) is None
    assert (gate.status().dropped_actions, gate.status().dropped_told) == (5, 0)
    lines = [json.loads(line) for line in (gate.directory / "drops").read_text().splitlines()]
    assert [(line["why"], line["request_id"]) for line in lines][:4] == [("full", f"r-{n}") for n in range(1, 5)]
    gate.close()
    again = lonely(max_queued=100, when_full="fail_open")
    assert again.status().dropped_actions == 5
    with again.decision(authenticated=True):
        pass
    told = [body for body in bodies_of(again) if body["type"] == "dropped"]
    assert [(body["count"], body["why"]) for body in told] == [(5, "full")]
    assert told[0]["since"] <= told[0]["until"]
    assert bodies_of(again)[-3]["type"] == "dropped", "it precedes what is written next"
    again.close()
    assert lonely().status().dropped_told == 5


class Disk:
    """A disk that can be made to refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses = False
        self.keeps = 0
        self.real = os.pwrite
        monkeypatch.setattr(appendfile.os, "pwrite", self.pwrite)

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        if self.refuses:
            if self.keeps:
                self.real(fd, data[: self.keeps], at)
            raise OSError(28, "No space left on device")
        return self.real(fd, data, at)


@pytest.mark.parametrize("keeps", [0, 1, 40, 100_000])
def test_a_disk_that_refuses_stops_actions_and_the_gate_goes_on_when_it_does(
    lonely: Make, monkeypatch: pytest.MonkeyPatch, keeps: int
) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    disk = Disk(monkeypatch)
    disk.refuses, disk.keeps = True, keeps
    with pytest.raises(OutboxDisk) as refused, gate.decision(authenticated=True, request_id="lost"):
        pytest.fail("nothing may run")
    assert refused.value.code == "outbox-disk"
    with pytest.raises(OutboxDisk):
        gate.append({"type": "note"})
    assert gate.status().disk_refuses
    assert "counterfoil_gate_receipts_total" in gate.metrics()
    disk.refuses = False
    with gate.decision(authenticated=True, request_id="after"):
        pass
    found = bodies_of(gate)
    outcomes = {body["request_id"]: body for body in found if body["type"] == "outcome"}
    decisions = [body["request_id"] for body in found if body["type"] == "decision"]
    assert outcomes["after"]["executed"] is True
    # A receipt that reached the disk though its write failed is settled: nothing ran.
    assert set(decisions) == set(outcomes)
    if "lost" in outcomes:
        assert outcomes["lost"]["unknown"] is True


def test_nothing_runs_before_the_disk_says_that_its_decision_is_durable(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    receipts, real = gate.directory / "receipts", appendfile.datasync
    made_durable: list[int] = []
    refuses = False

    def datasync(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), receipts.stat()):
            if refuses:
                raise OSError(5, "Input/output error")
            made_durable.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(appendfile, "datasync", datasync)
    with gate.decision(authenticated=True):
        assert made_durable == [receipts.stat().st_size]
    assert made_durable[1:] == [receipts.stat().st_size], "nor is anybody told of an outcome"
    refuses = True
    with pytest.raises(OutboxDisk), gate.decision(authenticated=True, request_id="lost"):
        pytest.fail("nothing may run")
    refuses = False
    with gate.decision(authenticated=True):
        pass
    lost = [body for body in bodies_of(gate) if body["type"] == "outcome" and body["request_id"] == "lost"]
    assert [body["unknown"] for body in lost] == [True], "it was written for all that"


def test_an_outcome_that_the_disk_refused_is_written_when_it_can_be(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lonely()
    disk = Disk(monkeypatch)
    with pytest.raises(OutboxDisk), gate.decision(authenticated=True, request_id="r-1"):
        disk.refuses = True
    disk.refuses = False
    gate.append({"type": "note"})
    outcome = next(body for body in bodies_of(gate) if body["type"] == "outcome")
    assert (outcome["request_id"], outcome["executed"]) == ("r-1", True), "the truth, and not `unknown`"
    assert gate.status().open_decisions == 0


def test_fail_open_with_a_disk_that_refuses_runs_counts_and_tells(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lonely(when_full="fail_open")
    gate.append({"type": "note"})
    disk = Disk(monkeypatch)
    disk.refuses = True
    for place in range(3):
        with gate.decision(authenticated=True, request_id=f"r-{place}") as act:
            assert act.receipt_id is None
    disk.refuses = False
    with gate.decision(authenticated=True, request_id="after") as act:
        assert act.receipt_id is not None
    told = [body for body in bodies_of(gate) if body["type"] == "dropped"]
    assert [(body["count"], body["why"]) for body in told] == [(3, "disk")]


# Starts, forks, threads, time, keys.


def test_a_start_settles_what_a_stopped_gate_left(lonely: Make, tmp_path: Path, key: SigningKey) -> None:
    gate = lonely()
    scopes = [gate.decision(authenticated=True, request_id=f"r-{n}", claimed_agent="a") for n in range(3)]
    for scope in scopes:
        entered(scope)
    # As after a crash: nothing is closed, and another process opens the directory.
    gate._outbox._store.close()  # type: ignore[union-attr]
    again = lonely()
    # The log cannot be reached, so it is not asked whether this outbox is the newest copy.
    until(lambda: again.status().owed == 0)
    outcomes = [body for body in bodies_of(again) if body["type"] == "outcome"]
    assert [outcome["request_id"] for outcome in outcomes] == ["r-0", "r-1", "r-2"], "oldest first"
    for outcome in outcomes:
        assert (outcome["executed"], outcome["unknown"]) == (False, True)
        assert outcome["error"] == "outcome-unknown: the gate stopped before it could tell"
        assert (outcome["agent"], outcome["authenticated"]) == ("a", False)
        assert "started_at" not in outcome


def test_a_second_writer_is_refused_in_this_process_and_in_another(lonely: Make, tmp_path: Path) -> None:
    gate = lonely()
    with pytest.raises(OutboxBusy) as busy:
        lonely()
    assert busy.value.code == "outbox-busy"
    program = (
        "import sys\nfrom counterfoil import Outbox, SigningKey\n"
        "try:\n Outbox(sys.argv[1], SigningKey('gate.example/py', bytes(range(32))))\n"
        "except Exception as error: print(error.code)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(gate.directory)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "outbox-busy"
    gate.close()
    lonely()


def test_a_directory_of_another_kind_of_writer_is_only_read(lonely: Make) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    gate.close()
    (gate.directory / "writer").write_text('{"writer":"node"}')
    with pytest.raises(OutboxWriter) as refused:
        lonely()
    assert refused.value.code == "outbox-writer"
    assert len(bodies_of(gate)) == 2


def _in_child(gate: Gate, scope: Any, answers: Any) -> None:
    codes = []
    for action in (
        lambda: gate.append({"type": "note"}),
        lambda: gate.deny(authenticated=True),
        lambda: scope.__exit__(None, None, None),
        gate.status,
        lambda: gate.history("a"),
        gate.flush,
    ):
        try:
            action()
            codes.append("allowed")
        except CounterfoilError as error:
            codes.append(error.code)
    gate.close()
    answers.put(codes)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_writes_nothing_and_does_not_hold_the_lock(lonely: Make) -> None:
    gate = lonely()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    scope = gate.decision(authenticated=True)
    entered(scope)
    child = context.Process(target=_in_child, args=(gate, scope, answers))
    child.start()
    codes = answers.get(timeout=PATIENCE)
    child.join(PATIENCE)
    # A scope that ends in the child is logged there; the parent's own end counts.
    assert [code for code in codes if code != "allowed"] == ["outbox-busy"] * len([c for c in codes if c != "allowed"])
    assert codes.count("outbox-busy") >= 5
    scope.__exit__(None, None, None)
    gate.append({"type": "note"})
    assert [body["type"] for body in bodies_of(gate)] == ["open", "decision", "outcome", "note"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_outlives_its_parent_does_not_hold_the_outbox(tmp_path: Path) -> None:
    program = """
import os, sys
from counterfoil import Outbox, SigningKey
outbox = Outbox(sys.argv[1], SigningKey('gate.example/py', bytes(range(32))))
if os.fork() == 0:
    print('forked', flush=True)
    # As long as the test lets it live.
    sys.stdin.read()
    print('ended', flush=True)
    os._exit(0)
os._exit(0)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "outbox")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"forked\n"
    parent.wait(PATIENCE)
    Outbox(tmp_path / "outbox", SigningKey("gate.example/py", bytes(range(32)))).close()
    parent.stdin.close()
    assert parent.stdout.read() == b"ended\n", "it was alive all the while"


def test_many_threads_make_one_stream(lonely: Make) -> None:
    gate = lonely()

    def work() -> None:
        for _ in range(20):
            with gate.decision(authenticated=True):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(body["type"] == "outcome" for body in bodies_of(gate)) == 160


def test_a_clock_that_goes_back_repeats_the_last_time(lonely: Make) -> None:
    times = iter([5_000, 5_000, 9_000, 9_000])
    gate = lonely(clock=lambda: next(times, 1_000))
    for _ in range(3):
        with gate.decision(authenticated=True):
            pass
    with OutboxView(gate.directory) as view:
        issued = [receipt.issued_at for receipt in view.receipts()]
    assert issued == sorted(issued)
    outcome = outcome_of(gate)
    assert outcome["started_at"] <= outcome["ended_at"]
    rotated = gate.rotate(SigningKey(gate.issuer, b"n" * 32))
    assert rotated.issued_at == issued[-1]


def test_what_opens_a_commitment_is_on_disk_before_its_receipt(lonely: Make) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    (gate.directory / "disclosures").write_text("no directory")
    with pytest.raises(OutboxDisk):
        gate.deny(authenticated=True, why="x", commit=["why"])
    assert [body["type"] for body in bodies_of(gate)] == ["open", "note"]
    (gate.directory / "disclosures").unlink()
    gate.deny(authenticated=True, why="x", commit=["why"])
    assert len(bodies_of(gate)) == 3


def test_a_gate_with_heartbeats_is_never_silent(lonely: Make) -> None:
    gate = lonely(heartbeat_ms=200, gate="example 1.0", policy_digest="sha256:" + "0" * 64)
    until(lambda: gate.status().outbox.receipts >= 4)
    assert [body["type"] for body in bodies_of(gate)][:4] == ["open", "heartbeat", "heartbeat", "heartbeat"]
    found = bodies_of(gate)
    assert (found[0]["heartbeat_ms"], found[0]["gate"]) == (200, "example 1.0")


def test_a_stream_that_has_ended_has_no_heartbeat(lonely: Make, caplog: pytest.LogCaptureFixture) -> None:
    gate = lonely(heartbeat_ms=100)
    gate.end(0)
    count = gate.status().outbox.receipts
    time.sleep(0.5)
    assert gate.status().outbox.receipts == count
    assert "heartbeat" not in caplog.text


def test_a_rotated_key_signs_from_the_next_receipt_on(lonely: Make, key: SigningKey) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    new = SigningKey(key.name, b"n" * 32)
    new.write(gate.directory.parent / "new.key")
    gate.rotate(gate.directory.parent / "new.key")
    gate.append({"type": "note"})
    assert str(gate.vkey) == str(new.verifier)
    assert [body["type"] for body in bodies_of(gate)] == ["open", "note", "rotate", "note"]
    gate.close()
    with pytest.raises(OutboxOtherKey):
        lonely()
    lonely(key=new).append({"type": "note"})


def test_a_key_file_that_is_missing_unreadable_or_no_key_is_said_by_its_code(tmp_path: Path, lonely: Make) -> None:
    folder, others, short = tmp_path / "folder", tmp_path / "others", tmp_path / "short"
    folder.mkdir(0o700)
    for path, text in ((others, b"\xff\n"), (short, b"PRIVATE+KEY+gate.example/1+00000000+AQ==\n")):
        path.write_bytes(text)
        path.chmod(0o600)
    for path, code in (
        (tmp_path / "none", "key-file"),
        (folder, "key-file"),
        (others, "key-shape"),
        (short, "key-length"),
    ):
        with pytest.raises(KeyFormatError) as refused:
            lonely(key=path)
        assert refused.value.code == code
        assert ";" in str(refused.value), "it says what to do"


def test_a_key_file_open_to_others_is_refused(tmp_path: Path, key: SigningKey, lonely: Make) -> None:
    path = tmp_path / "gate.key"
    key.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    lonely(key=path).close()
    path.chmod(0o640)
    with pytest.raises(KeyFormatError) as refused:
        lonely("other", key=str(path))
    assert refused.value.code == "key-file"
    assert "seed" not in repr(key)
    assert key.private_text() not in repr(key)
    with pytest.raises(FileExistsError):
        key.write(path)


def test_a_closed_gate_refuses_and_ends_what_is_open(lonely: Make) -> None:
    gate = lonely()
    with gate.decision(authenticated=True):
        gate.close()
        with pytest.raises(OutboxStopped):
            gate.append({"type": "note"})
    gate.close()
    assert outcome_of(gate)["executed"] is True
    lonely().close()


def test_the_stream_does_not_end_while_scopes_are_open(lonely: Make) -> None:
    gate = lonely()
    with gate.decision(authenticated=True), pytest.raises(ScopeOnly):
        gate.end(0)
    assert gate.end(0) is False
    assert bodies_of(gate)[-1]["type"] == "close"


def test_metrics_have_the_names_that_every_sdk_has(lonely: Make) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    text = gate.metrics()
    for name, value in (
        ("receipts_total", "2"),
        ("queued", "2"),
        ("acknowledged_total", "0"),
        ("dropped_total", "0"),
        ("alarms_total", "0"),
        ("open_decisions", "0"),
    ):
        assert f'counterfoil_gate_{name}{{issuer="gate.example/py"}} {value}\n' in text
    assert "counterfoil_gate_oldest_queued_seconds{" in text


def test_damage_is_not_repaired(lonely: Make) -> None:
    gate = lonely()
    for _ in range(3):
        gate.append({"type": "note"})
    gate.close()
    path = gate.directory / "receipts"
    data = bytearray(path.read_bytes())
    data[0:2] = b"\xff\xff"
    path.write_bytes(bytes(data))
    (gate.directory / "state").unlink()
    with pytest.raises(CounterfoilError) as damaged:
        lonely()
    assert damaged.value.code == "outbox-damaged"


@pytest.mark.parametrize("cut", [1, 2, 3, 50, 300])
def test_a_torn_tail_is_moved_to_dropped(lonely: Make, cut: int) -> None:
    gate = lonely()
    gate.append({"type": "note"})
    gate.close()
    path = gate.directory / "receipts"
    whole = path.read_bytes()
    path.write_bytes(
        whole + whole[-(len(whole) // 2) :][:0] + (b"\x01\x90" + b"counterfoil/receipt/v1\n" + b"x" * 300)[:cut]
    )
    again = lonely()
    again.append({"type": "note"})
    assert len(bodies_of(again)) == 3
    assert again.status().outbox.dropped == 1


def test_a_disk_that_takes_a_part_of_a_file_is_asked_for_the_rest(
    lonely: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    gate = lonely()
    receipt = gate.deny(authenticated=True, args={"a": 1}, commit=["args"])
    assert receipt is not None
    text = (gate.directory / "disclosures" / f"{receipt.seq}.jsonl").read_text()
    assert Disclosure.parse(text.rstrip("\n")).value == {"a": 1}


def test_a_policy_is_given_as_its_text_or_by_its_file(tmp_path: Path) -> None:
    key, log = SigningKey("gate.example/policy", b"p" * 32), SigningKey("log.example", b"l" * 32)
    text = f"log {log.verifier}\nquorum none\n"
    file = tmp_path / "policy"
    file.write_text(text)
    for policy in (text, text.encode(), str(file), file):
        with Gate(tmp_path / "outbox", key, "http://127.0.0.1:9", log.verifier, policy=policy) as gate:
            assert gate.policy is not None
            with pytest.raises(HistoryError, match="policy") as refused:
                gate.history("customer:7", seconds=1)
            assert refused.value.code == "history-unavailable"
    with pytest.raises(PolicyError, match="cannot be read") as refused_file:
        Gate(tmp_path / "outbox", key, "http://127.0.0.1:9", log.verifier, policy=tmp_path / "none")
    assert refused_file.value.code == "policy-file"


def test_a_lock_that_a_child_holds_for_a_moment_is_waited_for(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LOCK_PATIENCE_S", 600.0)
    Outbox(tmp_path / "outbox", key).close()
    # Between fork and exec a child has a copy of the file, and with it the lock.
    copy = os.open(tmp_path / "outbox" / "lock", os.O_WRONLY)
    fcntl.flock(copy, fcntl.LOCK_EX)
    child = threading.Timer(0.1, os.close, (copy,))
    child.start()
    Outbox(tmp_path / "outbox", key).close()
    child.join()
