"""Where an example's receipts go: to the log that the command line names, or to one started for it on this machine.

Started here are what an operator runs in earnest: a log, and a witness that follows it. They end with the example; its
directory, with the outbox in it, stays if ``--dir`` named it. The programs are found through ``COUNTERFOIL_BIN``, on the
``PATH``, or where cargo puts them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterfoil import Gate, OutboxView

GATE_NAME = "gate.example/support-1"
#: How long anything started here may take to get ready; it takes a tenth of a second.
PATIENCE = 60.0


@dataclass(frozen=True)
class LocalLog:
    """A log, and what a gate needs to write to it."""

    url: str
    vkey: str
    #: File with the gate's private key.
    key: Path
    #: The gate's outbox directory, which may not be there yet.
    outbox: Path
    #: Whom to trust: the log and its witnesses. Empty where the command line named a log and no policy.
    policy: str


@contextlib.contextmanager
def local_log(description: str | None) -> Iterator[LocalLog]:
    """Reads the command line, and starts what it does not name."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument(
        "--log", metavar="URL", help="a log that runs, and knows the gate; without it one is started here"
    )
    options.add_argument("--log-key", metavar="VKEY", help="the log's vkey")
    options.add_argument(
        "--key", type=Path, metavar="FILE", help="the gate's private key, made by `counterfoil keygen`"
    )
    options.add_argument("--policy", type=Path, metavar="FILE", help="whose word counts, for history and proofs")
    options.add_argument("--dir", type=Path, metavar="DIR", help="where the outbox goes, and stays")
    given = options.parse_args()
    with contextlib.ExitStack() as stack:
        directory = given.dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="counterfoil-")))
        directory.mkdir(parents=True, exist_ok=True)
        if given.log is None:
            yield stack.enter_context(_started(directory))
        elif given.log_key is None or given.key is None:
            options.error("--log goes with --log-key and --key")
        else:
            policy = given.policy.read_text() if given.policy else ""
            yield LocalLog(given.log, given.log_key, given.key, directory / "outbox", policy)


def show(gate: Gate) -> None:
    """Waits until the log has proved to hold everything, and prints what that is."""
    proved = gate.flush(PATIENCE)
    print(f"\n{'seq':>3}  {'index':>5}  {'receipt':<12}  what it says")
    with OutboxView(gate.directory) as outbox:
        for receipt in outbox.receipts():
            kept = outbox.kept(receipt.seq)
            index = "-" if kept is None else kept.index
            print(f"{receipt.seq:>3}  {index:>5}  {receipt.id.hex()[:12]}  {_sentence(receipt.body)}")
    if not proved:
        sys.exit(f"the log does not hold all of them yet: {gate.status().sender.sentence}")
    print("The log holds all of them; its proofs are in the outbox.")


def _sentence(body: dict[str, Any]) -> str:
    if body["type"] == "decision":
        rule = f" by {body['rule']}" if "rule" in body else ""
        return f"decision: {body['decision']} {body['operation']}{rule}"
    if body["type"] == "outcome":
        happened = "executed" if body["executed"] else "unknown" if body.get("unknown") else "not executed"
        return f"outcome: {happened}" + (f" ({body['error']})" if "error" in body else "")
    return ", ".join([body["type"], *(f"{name} {body[name]}" for name in ("message", "source") if name in body)])


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[LocalLog]:
    log_port, witness_port = _free_ports(2)
    log_url, witness_url = f"http://127.0.0.1:{log_port}", f"http://127.0.0.1:{witness_port}"
    log, witness, key = directory / "log", directory / "witness", directory / "gate.key"
    log_vkey = _first_line("log", "init", "--dir", log, "--origin", "log.example/agents", "--listen", log_url[7:])
    witness_vkey = _first_line(
        "witness", "init", "--dir", witness, "--name", "witness.example/1", "--listen", witness_url[7:]
    )
    gate_vkey = _first_line("keygen", "--kind", "issuer", "--name", GATE_NAME, "--out", key)
    _first_line("log", "issuer", "add", "--dir", log, gate_vkey)
    with (log / "config.toml").open("a") as config:
        config.write(f'\n[[witness]]\nvkey = "{witness_vkey}"\nurl = "{witness_url}"\n')
    with (witness / "config.toml").open("a") as config:
        config.write(f'\n[[log]]\nvkey = "{log_vkey}"\nurl = "{log_url}"\nprivate_address = true\n')
    policy = f"log {log_vkey} {log_url}\nwitness w1 {witness_vkey} {witness_url}\nquorum w1\n"
    (directory / "policy").write_text(policy)
    with _running(directory, "log", log), _running(directory, "witness", witness):
        _wait_for(f"{log_url}/checkpoint")
        _wait_for(f"{witness_url}/status")
        yield LocalLog(log_url, log_vkey, key, directory / "outbox", policy)


@contextlib.contextmanager
def _running(directory: Path, program: str, of: Path) -> Iterator[None]:
    with (directory / f"{program}.stderr").open("wb") as said:
        command = [_counterfoil(), program, "serve", "--config", str(of / "config.toml")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _counterfoil() -> str:
    """The executable that is all programs."""
    if named := os.environ.get("COUNTERFOIL_BIN"):
        return named
    built = Path(__file__).resolve().parent.parent / "target"
    places = [shutil.which("counterfoil"), built / "release" / "counterfoil", built / "debug" / "counterfoil"]
    for place in places:
        if place is not None and Path(place).is_file():
            return str(place)
    sys.exit("no `counterfoil` here: `cargo build --bin counterfoil`, or set COUNTERFOIL_BIN, or name a log by --log")


def _first_line(*arguments: str | Path) -> str:
    run = subprocess.run([_counterfoil(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"counterfoil {' '.join(map(str, arguments))}: {run.stderr}")
    return run.stdout.partition("\n")[0]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_for(url: str) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=PATIENCE):
            return
        time.sleep(0.05)
    sys.exit(f"{url} does not answer")
