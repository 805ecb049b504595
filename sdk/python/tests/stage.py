"""A log and a witness of the real programs, for tests."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx

#: How long, in seconds, a test waits for what must come. No promise of anybody's: a loaded machine may not run a thread, or a
#: program, for a while.
PATIENCE = 240.0

REPOSITORY = Path(__file__).resolve().parents[3]


def program() -> str | None:
    """The `counterfoil` program: by COUNTERFOIL_BIN, or where cargo puts it."""
    named = os.environ.get("COUNTERFOIL_BIN")
    for candidate in (
        named,
        str(REPOSITORY / "target/debug/counterfoil"),
        str(REPOSITORY / "target/release/counterfoil"),
    ):
        if candidate and Path(candidate).is_file():
            return candidate
    return shutil.which("counterfoil")


def run(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the program."""
    found = program()
    assert found is not None
    ended = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
    assert not check or ended.returncode == 0, f"{arguments}: {ended.stderr}"
    return ended


def until(condition: Callable[[], object]) -> None:
    """Waits for what must come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def free_port() -> int:
    """A port that nobody listens on at this moment, and that the system gives to nobody unasked: neither to a listener on any
    port nor to the near end of a connection, as one that a gate makes to a log that is down."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            return port


class Stage:
    """A log with any number of issuers, perhaps one witness, and the policy for both."""

    def __init__(self, directory: Path, *, witness: bool = False) -> None:
        self.dir = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        first = run("log", "init", "--dir", directory / "log", "--origin", "log.example/agents").stdout
        self.vkey = first.splitlines()[0]
        self._listen(directory / "log/config.toml", "127.0.0.1:8080", self.port)
        self.witness_vkey: str | None = None
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        if witness:
            port = self.port
            while port == self.port:
                port = free_port()
            first = run("witness", "init", "--dir", directory / "witness", "--name", "witness.example/1").stdout
            self.witness_vkey = first.splitlines()[0]
            self._listen(directory / "witness/config.toml", "127.0.0.1:7380", port)
            with open(directory / "log/config.toml", "a") as file:
                file.write(f'\n[[witness]]\nvkey = "{self.witness_vkey}"\nurl = "http://127.0.0.1:{port}"\n')
            with open(directory / "witness/config.toml", "a") as file:
                file.write(f'\n[[log]]\nvkey = "{self.vkey}"\nurl = "{self.url}"\nprivate_address = true\n')
            self.witness_port = port

    @property
    def policy(self) -> str:
        """Whom to trust."""
        if self.witness_vkey is None:
            return f"log {self.vkey} {self.url}\nquorum none\n"
        return f"log {self.vkey} {self.url}\nwitness w1 {self.witness_vkey}\nquorum w1\n"

    def add_issuer(self, vkey: object) -> None:
        """Registers an issuer, also while the log runs."""
        run("log", "issuer", "add", "--dir", self.dir / "log", str(vkey))
        if "log" in self.processes:
            self.processes["log"].send_signal(signal.SIGHUP)
            name = str(vkey).split("+", 1)[0].replace("/", "%2F")
            self._wait("log", f"{self.url}/v1/issuers/{name}")

    def start(self, *names: str) -> Stage:
        """Starts these, or what is not running, and waits until it answers."""
        if "log" not in self.processes and "log" in (names or ("log",)):
            self._serve("log", self.dir / "log/config.toml")
            self._wait("log", f"{self.url}/checkpoint")
        if self.witness_vkey is not None and "witness" not in self.processes and "witness" in (names or ("witness",)):
            self._serve("witness", self.dir / "witness/config.toml")
            self._wait("witness", f"http://127.0.0.1:{self.witness_port}/status")
        return self

    def stop(self, *names: str) -> None:
        """Stops these, or all."""
        for name in names or tuple(self.processes):
            process = self.processes.pop(name, None)
            if process is not None:
                process.terminate()
                process.wait(PATIENCE)

    def issuer(self, name: str) -> dict[str, object]:
        """What the log says of an issuer."""
        address = f"{self.url}/v1/issuers/{name.replace('/', '%2F')}"
        answer = httpx.get(address, trust_env=False, timeout=PATIENCE)
        answer.raise_for_status()
        return dict(answer.json())

    def _serve(self, kind: str, config: Path) -> None:
        found = program()
        assert found is not None
        with open(self.dir / f"{kind}.txt", "ab") as output:
            self.processes[kind] = subprocess.Popen(
                [found, kind, "serve", "--config", str(config)], stdout=output, stderr=output
            )

    @staticmethod
    def _listen(config: Path, old: str, port: int) -> None:
        text = config.read_text()
        assert old in text
        config.write_text(text.replace(old, f"127.0.0.1:{port}"))

    def _wait(self, kind: str, url: str) -> None:
        def answers() -> bool:
            ended = self.processes[kind].poll()
            assert ended is None, f"{kind} ended ({ended}): {(self.dir / f'{kind}.txt').read_text()}"
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(url, trust_env=False, timeout=PATIENCE).status_code == 200
            return False

        until(answers)
