from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import counterfoil
from counterfoil import Gate, SigningKey
from stage import Stage, program


@pytest.fixture(scope="session")
def binary() -> str:
    found = program()
    if found is None:
        pytest.skip("no counterfoil program: set COUNTERFOIL_BIN, or run `cargo build --bin counterfoil`")
    return found


@pytest.fixture
def stage(tmp_path: Path, binary: str) -> Iterator[Stage]:
    made = Stage(tmp_path / "stage")
    yield made
    made.stop()


@pytest.fixture
def witnessed(tmp_path: Path, binary: str) -> Iterator[Stage]:
    made = Stage(tmp_path / "witnessed", witness=True)
    yield made
    made.stop()


@pytest.fixture
def key() -> SigningKey:
    return SigningKey("gate.example/py", bytes(range(32)))


LOG_KEY = counterfoil.SigningKey("log.example/agents", bytes([9]) * 32)


@pytest.fixture
def lonely(tmp_path: Path, key: SigningKey) -> Iterator[Callable[..., Gate]]:
    """Makes gates whose log is never there; closed at the end."""
    made: list[Gate] = []

    def make(directory: str = "outbox", **options: object) -> Gate:
        options.setdefault("key", key)
        gate = Gate(tmp_path / directory, log="http://127.0.0.1:9", log_key=LOG_KEY.verifier, **options)  # type: ignore[arg-type]
        made.append(gate)
        return gate

    yield make
    for gate in made:
        gate.close()
