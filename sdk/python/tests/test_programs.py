"""One outbox, two languages: the gate's programs read and go on with what this package wrote, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterfoil import Gate, OutboxView, ProofError, SigningKey, TlogProof
from stage import PATIENCE, Stage, run


def submit(stage: Stage, directory: Path, key_file: Path, outbox: Path, *bodies: dict[str, object]) -> None:
    path = directory / "bodies.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    run("submit", "--log", stage.url, "--log-key", stage.vkey, "--key", key_file, "--outbox", outbox, path)


def test_an_outbox_goes_from_one_language_to_the_other_and_back(stage: Stage, tmp_path: Path) -> None:
    made = run("keygen", "--kind", "issuer", "--name", "gate.example/both", "--out", tmp_path / "gate.key").stdout
    stage.add_issuer(made.splitlines()[0])
    stage.start()
    outbox, key_file = tmp_path / "outbox", tmp_path / "gate.key"
    submit(stage, tmp_path, key_file, outbox, {"type": "note", "text": "from the program"})
    with Gate(outbox, key_file, stage.url, stage.vkey) as gate:
        with gate.decision(authenticated=True, operation="from.python", args={"é": [1, 0.5]}, args_mode="clear"):
            pass
        assert gate.flush(PATIENCE)
    submit(stage, tmp_path, key_file, outbox, {"type": "note", "text": "the program again"})
    with Gate(outbox, key_file, stage.url, stage.vkey) as gate:
        gate.append({"type": "note", "text": "and Python again"})
        assert gate.flush(PATIENCE)
        gate.append({"type": "note", "text": "not sent yet"})
        expected = gate.status().outbox
    status = json.loads(run("outbox", "status", "--outbox", outbox, "--json").stdout)
    assert status["receipts"] == expected.receipts == 7
    assert status["issuer"] == "gate.example/both"
    # One receipt has no proof yet, which is no fault and not nothing.
    found = run("outbox", "verify", "--outbox", outbox, check=False).stdout
    assert "7 receipts checked" in found
    assert "0 faults" in found
    with OutboxView(outbox) as view:
        assert view.verify() == []
        assert [r.body.get("text") or r.type for r in view.receipts()] == [
            "open", "from the program", "decision", "outcome", "the program again", "and Python again", "not sent yet",
        ]  # fmt: skip
    assert stage.issuer("gate.example/both")["forks"] == 0


def test_the_two_languages_lock_each_other_out(stage: Stage, tmp_path: Path, key: SigningKey) -> None:
    stage.add_issuer(key.verifier)
    stage.start()
    key.write(tmp_path / "gate.key")
    (tmp_path / "bodies.jsonl").write_text('{"type":"note"}\n')
    with Gate(tmp_path / "outbox", key, stage.url, stage.vkey) as gate:
        gate.append({"type": "note"})
        refused = run(
            "submit", "--log", stage.url, "--log-key", stage.vkey, "--key", tmp_path / "gate.key", "--outbox",
            tmp_path / "outbox", tmp_path / "bodies.jsonl", check=False,
        )  # fmt: skip
        assert refused.returncode != 0
        assert "another process is using" in refused.stderr
        assert json.loads(run("outbox", "status", "--outbox", tmp_path / "outbox", "--json").stdout)["receipts"] == 2


def test_a_kept_proof_is_judged_by_a_policy_as_the_verifier_judges_it(
    witnessed: Stage, tmp_path: Path, key: SigningKey
) -> None:
    witnessed.add_issuer(key.verifier)
    # No witness: it would cosign the head at some moment.
    witnessed.start("log")
    with Gate(tmp_path / "outbox", key, witnessed.url, witnessed.vkey) as gate:
        receipt = gate.append({"type": "note"})
        assert gate.flush(PATIENCE)
        kept = gate._outbox.kept(receipt.seq)
    assert kept is not None
    proof = TlogProof.parse(kept.proof)
    entry = receipt.entry
    with pytest.raises(ProofError) as unmet:
        proof.verify(entry, witnessed.policy)
    assert unmet.value.code == "quorum-not-met", "no witness has looked"
    assert proof.verify(entry, f"log {witnessed.vkey}\nquorum none\n").index == kept.index
    with pytest.raises(ProofError) as other:
        proof.verify(entry + b"x", f"log {witnessed.vkey}\nquorum none\n")
    assert other.value.code == "not-included"


def test_a_credential_is_refused_before_the_log_sees_it(stage: Stage, tmp_path: Path, key: SigningKey) -> None:
    stage.add_issuer(key.verifier)
    stage.start()
    with Gate(tmp_path / "outbox", key, stage.url, stage.vkey) as gate:
        with pytest.raises(Exception, match="an API token") as refused:
            gate.append({"type": "note", "text": "ghp_" + "a1B2" * 9})
        assert refused.value.code == "credential-shaped"  # type: ignore[attr-defined]
        gate.append({"type": "note", "text": "harmless"})
        assert gate.flush(PATIENCE)
    assert stage.issuer(key.name)["next_seq"] == 2
