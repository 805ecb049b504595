"""A gate that is killed at any instant: nothing returned is lost, nothing is signed twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from counterfoil import Gate, OutboxView, SigningKey
from stage import PATIENCE, Stage, run, until

KILLS = int(os.environ.get("COUNTERFOIL_KILLS", "200"))


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_after_many_kills_every_returned_receipt_is_in_the_log_once(
    stage: Stage, tmp_path: Path, key: SigningKey
) -> None:
    stage.add_issuer(key.verifier)
    stage.start()
    outbox, returned = tmp_path / "outbox", tmp_path / "returned"
    dice = random.Random(6)
    zygote = subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).parent / "zygote.py"),
            str(outbox),
            stage.url,
            stage.vkey,
            str(returned),
            key.name,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    for _ in range(KILLS):
        before = size_of(returned)
        zygote.stdin.write("\n")
        zygote.stdin.flush()
        child = int(zygote.stdout.readline())
        # Some are killed while they start, most while they write and send: once they have got somewhere, however long they
        # take for it.
        if dice.random() < 2 / 3:
            until(lambda: size_of(returned) > before)  # noqa: B023
            time.sleep(dice.uniform(0, 0.2))
        else:
            time.sleep(dice.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert int(zygote.stdout.readline()) == signal.SIGKILL, "it was killed, and did not fail by itself"
    zygote.stdin.close()
    assert zygote.stderr is not None
    assert "Error" not in zygote.stderr.read()
    zygote.wait(PATIENCE)

    with Gate(outbox, key, stage.url, stage.vkey) as gate:
        assert gate.flush(PATIENCE)
        status = gate.status()
    assert status.open_decisions == 0
    assert status.outbox.alarms == 0
    with OutboxView(outbox) as view:
        receipts = list(view.receipts())
        assert view.verify() == []
    known = {receipt.id.hex() for receipt in receipts}
    told = returned.read_text().split()
    assert len(told) > KILLS // 4, "the children got somewhere"
    assert len(set(told)) == len(told)
    assert set(told) <= known, "a returned receipt is gone"

    # The log's own view: as many as the outbox has, the same head, nothing contradicted.
    in_log = stage.issuer(key.name)
    assert (in_log["next_seq"], in_log["head"], in_log["forks"]) == (len(receipts), receipts[-1].id.hex(), 0)
    allowed = [r for r in receipts if r.type == "decision" and r.body["decision"] == "allow"]
    settled = [r.body["decision"] for r in receipts if r.type == "outcome"]
    assert sorted(settled) == sorted(r.id.hex() for r in allowed), "each decision has one outcome"
    unknown = [r for r in receipts if r.body.get("unknown")]
    assert unknown, "some kills came between decision and outcome"
    assert all(r.body["executed"] is False for r in unknown)
    assert "0 faults" in run("outbox", "verify", "--outbox", outbox).stdout
    print(
        f"{KILLS} kills, {len(receipts)} receipts, {len(told)} returned, {len(unknown)} unknown, dropped {status.outbox.dropped}"
    )
