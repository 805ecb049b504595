"""The README's example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterfoil import Gate
from fake_log import fake_log
from stage import PATIENCE

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(example) == 1
    monkeypatch.chdir(tmp_path)
    flush = Gate.flush
    monkeypatch.setattr(Gate, "flush", lambda gate, seconds: flush(gate, max(seconds, PATIENCE)))
    with fake_log() as log:
        exec(compile(example[0], str(README), "exec"), {"LOG_URL": log.url, "LOG_VKEY": log.vkey, "send_mail": len})
        assert len(log.entries) == 4
    printed = capsys.readouterr().out
    assert "gate.example/support-1+" in printed
    assert "4 receipts proved to be in the log" in printed
