"""The vectors that the Rust side generates: the same answers and the same codes, case by case."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Outbox, OutboxView, Policy, TlogProof, bodies, commitments, credentials, ijson, jcs, merkle
from counterfoil.admit import IssuerState, admit
from counterfoil.calls import OpenCalls
from counterfoil.drops import Drops
from counterfoil.errors import CounterfoilError, PolicyError, Refusal
from counterfoil.index import LogIndex
from counterfoil.keys import SigningKey, VerifierKey
from counterfoil.notes import SignedNote
from counterfoil.receipts import Receipt, action_digest, sign_receipt

VECTORS = Path(__file__).resolve().parents[3] / "vectors"


def cases(name: str) -> list[Any]:
    """The cases of a file as parameters; a file that is missing fails loudly, as one case."""
    path = VECTORS / f"{name}.json"
    if not path.exists():
        return [pytest.param({}, id=f"{name}.json is missing")]
    listed = json.loads(path.read_text("utf-8"), parse_int=_whole)["cases"]
    assert listed
    return [pytest.param(case, id=f"{place} {case['name'][:60]}") for place, case in enumerate(listed)]


def _whole(digits: str) -> int | float:
    # JSON has one kind of number: `-0` is one that an int cannot hold.
    return -0.0 if digits == "-0" else int(digits)


def unbase64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def code_of(action: Callable[[], object]) -> str | None:
    try:
        action()
    except CounterfoilError as error:
        assert str(error)
        return error.code
    return None


@pytest.mark.parametrize("case", cases("ijson"))
def test_ijson(case: dict[str, Any]) -> None:
    assert code_of(lambda: ijson.parse_object(unbase64(case["text_b64"]))) == case["code"]


@pytest.mark.parametrize("case", cases("jcs"))
def test_jcs(case: dict[str, Any]) -> None:
    if "code" in case:
        assert code_of(lambda: ijson.parse_value(case["text"])) == case["code"]
        return
    value = ijson.parse_value(case["text"])
    assert jcs.canonical(value) == case["canonical"]
    assert jcs.digest(value).removeprefix("sha256:") == case["sha256"].removeprefix("sha256:")


@pytest.mark.parametrize("case", cases("keys"))
def test_keys(case: dict[str, Any]) -> None:
    if "code" in case:
        read = (
            (lambda: VerifierKey.parse(case["vkey"])) if "vkey" in case else (lambda: SigningKey.parse(case["private"]))
        )
        assert code_of(read) == case["code"]
        return
    if case["kind"] == 6:
        assert str(VerifierKey.parse(case["vkey"])) == case["vkey"]
        return
    key = SigningKey(case["key_name"], bytes.fromhex(case["seed_hex"]), case["kind"])
    assert (key.private_text(), str(key.verifier)) == (case["private"], case["vkey"])
    assert SigningKey.parse(case["private"]).verifier == key.verifier == VerifierKey.parse(case["vkey"])


@pytest.mark.parametrize("case", cases("ed25519"))
def test_ed25519(case: dict[str, Any]) -> None:
    try:
        key = VerifierKey("any", 1, bytes.fromhex(case["key_hex"]))
    except CounterfoilError:
        assert case["ok"] is False
        return
    assert key.verify(bytes.fromhex(case["message_hex"]), bytes.fromhex(case["signature_hex"])) is case["ok"]


@pytest.mark.parametrize("case", cases("receipts"))
def test_receipts(case: dict[str, Any]) -> None:
    entry = unbase64(case["entry_b64"])
    if "code" in case:
        code = code_of(lambda: Receipt.parse(entry))
        if code is None:
            # It is judged at seq 0 of an issuer that has none: only the rows before the place in the stream say anything.
            code = code_of(lambda: admit(IssuerState.registered(VerifierKey.parse(case["vkey"])), entry))
            code = code if code in ("unknown-issuer", "bad-signature") else None
        assert code == case["code"]
        return
    seeds = [case[name] for name in ("seed_hex", "next_seed_hex") if name in case]
    keys = [SigningKey(case["issuer"], bytes.fromhex(seed)) for seed in seeds]
    made = sign_receipt(
        case["body"],
        seq=int(case["seq"]),
        prev=unbase64(case["prev_b64"]),
        issued_at=int(case["issued_at"]),
        key=keys[0],
        next_key=keys[1] if len(keys) > 1 else None,
    )
    assert made.entry == entry
    read = Receipt.parse(entry)
    assert read == made
    assert read.id.hex() == case["id_hex"]
    read.note.verify(VerifierKey.parse(case["vkey"]))


@pytest.mark.parametrize("case", cases("streams"))
def test_streams(case: dict[str, Any]) -> None:
    state = IssuerState.registered(VerifierKey.parse(case["vkey"]))
    held: dict[int, bytes] = {}
    answers: list[str] = []
    now = None if case.get("now") is None else int(case["now"])
    for encoded in case["entries_b64"]:
        try:
            state, receipt = admit(state, unbase64(encoded), held.get, now)
            held[receipt.seq] = receipt.id
            answers.append("ok")
        except Refusal as refusal:
            answers.append(refusal.code)
        assert IssuerState.from_json(state.to_json()) == state
    assert answers == case["answers"]


@pytest.mark.parametrize("case", cases("credentials"))
def test_credentials(case: dict[str, Any]) -> None:
    found = credentials.find_credential(case["body"])
    if case["member"] is None:
        assert found is None
    else:
        assert found is not None
        assert (found.member or "(the whole object)", found.kind) == (case["member"], case["kind"])
        assert found.code == "credential-shaped"


@pytest.mark.parametrize("case", cases("actions"))
def test_actions(case: dict[str, Any]) -> None:
    assert jcs.canonical(case["action"]) == case["canonical"]
    assert action_digest(**case["action"]) == case["digest"]


@pytest.mark.parametrize("case", cases("commitments"))
def test_commitments(case: dict[str, Any]) -> None:
    if "salt" in case:
        committed, disclosure = commitments.commit(
            case["member"], case["value"], bodies.salts_of({"": case["salt"]})("")
        )
        assert (committed, str(disclosure)) == (case["committed"], case["disclosure"])
        assert commitments.Disclosure.parse(case["disclosure"]).opens(case["committed"])
        assert disclosure.digest() == case["digest"]
    elif "commit" in case:
        body = ijson.parse_object(case["body"]) if isinstance(case["body"], str) else case["body"]
        for name in case["commit"]:
            body[name], disclosure = commitments.commit(name, body[name], bodies.salts_of(case["salts"])(name))
            assert disclosure.opens(body[name])
        wanted = case["committed_body"]
        assert (jcs.compact(body) if isinstance(wanted, str) else body) == wanted
    elif "code" in case:
        assert code_of(lambda: commitments.Disclosure.parse(case["disclosure"])) == case["code"]
    else:
        assert commitments.Disclosure.parse(case["disclosure"]).digest() == case["digest"]


@pytest.mark.parametrize("case", cases("bodies"))
def test_bodies(case: dict[str, Any]) -> None:
    if "end" in case:
        assert outcome_of(case["end"]) == case["body"]
        return

    def write() -> bodies.DecisionText:
        written = decision_of(case["call"], case["given"])
        found = credentials.find_credential(ijson.parse_object(written.text))
        if found is not None:
            assert found.member == case.get("member")
            raise found
        return written

    if "code" in case:
        assert code_of(write) == case["code"]
        return
    written = write()
    assert written.text == case["body"]
    assert [str(line) for line in written.disclosures] == case.get("disclosures", [])


def decision_of(call: str, given: dict[str, Any]) -> bodies.DecisionText:
    """What a gate would write, called with these members."""
    given = dict(given)
    request_id, mode = given.pop("request_id"), given.pop("args_mode", "digest")
    commit, salts = given.pop("commit", []), given.pop("salts", {})
    extra = dict(given.pop("extra", {}))
    history = dict(given.pop("history", None) or {})
    if history:
        given["prior_action_classes"], given["prior_heads"] = history.pop("classes"), history.pop("heads")
        given["history"] = history
    return bodies.decision(
        "allow" if call == "decision" else "deny",
        request_id,
        given,
        args_mode=mode,
        commit_to=commit,
        extra=extra,
        salt=bodies.salts_of(salts) if salts else None,
    )


def outcome_of(end: dict[str, Any]) -> str:
    """What a scope would write, from how it ended."""
    how, given = end["how"], dict(end.get("given", {}))
    executed = how in ("returned", "error-after-call") or bool(end.get("executed"))
    digest, agent = end.get("executed_digest"), None
    if how != "reported":
        agent = bodies.agent_of({name: value for name, value in given.items() if name not in given.get("commit", ())})
        written = decision_of("decision", given)
        digest = written.executed_digest if executed else None
    error = {
        "returned": lambda: None,
        "not-executed": lambda: bodies.reason_text(end["reason"]),
        "error": lambda: bodies.error_text(end["error_type"], end["error_message"]),
        "error-after-call": lambda: bodies.error_text(end["error_type"], end["error_message"]),
        "cancelled": lambda: "cancelled",
        "crashed": lambda: bodies.STOPPED,
        "reported": lambda: end.get("error"),
    }[how]()
    result = unbase64(end["result_b64"]) if "result_b64" in end else end.get("result")
    return bodies.outcome(
        request_id=given["request_id"],
        decision=end["decision"],
        executed=executed,
        unknown=how in ("cancelled", "crashed"),
        executed_by="caller" if how == "reported" else "gate",
        executed_digest=digest,
        agent=agent,
        error=error,
        result_digest=bodies.result_digest(result) if "result" in end or "result_b64" in end else None,
        started_at=end.get("started_at"),
        ended_at=end.get("ended_at"),
    )


@pytest.mark.parametrize("case", cases("notes"))
def test_notes(case: dict[str, Any]) -> None:
    data = unbase64(case["note_b64"])
    if "code" in case:
        assert code_of(lambda: SignedNote.parse(data)) == case["code"]
        return
    note = SignedNote.parse(data)
    assert (note.text, len(note.signatures), note.data) == (case["text"], case["signatures"], data)
    keys = [VerifierKey.parse(vkey) for vkey in case["vkeys"]]
    assert [code_of(lambda key=key: note.verify(key)) or "ok" for key in keys] == case["answers"]  # type: ignore[misc]


@pytest.mark.parametrize("case", cases("trees"))
def test_trees(case: dict[str, Any]) -> None:
    leaves = [merkle.leaf_hash(str(place).encode()) for place in range(int(case.get("leaves", 0)))]
    if "leaves" in case:
        assert merkle.root_of(leaves).hex() == case["root_hex"]
        return
    given = case.get("inclusion") or case["consistency"]
    proof = [bytes.fromhex(node) for node in given["proof"]]
    root = bytes.fromhex(given.get("root_hex") or given["new_root_hex"])
    if "inclusion" in case:
        leaf, index, size = bytes.fromhex(given["leaf_hex"]), int(given["index"]), int(given["size"])
        code = code_of(lambda: merkle.check_inclusion(leaf, index, size, root, proof))
    else:
        old_root = bytes.fromhex(given["old_root_hex"])
        code = code_of(lambda: merkle.check_consistency(int(given["old"]), old_root, int(given["new"]), root, proof))
    same = {"old-root", "new-root"}
    assert code == case["code"] or {code, case["code"]} == same


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 255, 256, 257, 300, 600])
def test_proofs_made_from_tiles_hold(size: int) -> None:
    leaves = [merkle.leaf_hash(str(place).encode()) for place in range(size)]
    tiles = tiles_of(leaves)
    root = merkle.root_of(leaves)
    assert tiles.root() == root
    for index in {0, size // 3, size // 2, size - 1}:
        proof = merkle.prove_inclusion(index, size, tiles.subtree)
        merkle.check_inclusion(leaves[index], index, size, root, proof)
    for old in {1, size // 3 or 1, size // 2 or 1, size - 1 or 1, size}:
        proof = merkle.prove_consistency(old, size, tiles.subtree)
        merkle.check_consistency(old, merkle.root_of(leaves[:old]), size, root, proof)
        assert tiles.root(old) == merkle.root_of(leaves[:old])


def tiles_of(leaves: list[bytes]) -> merkle.Tiles:
    """Every tile of a tree."""
    tiles = merkle.Tiles(len(leaves))
    level, hashes = 0, leaves
    while hashes:
        for index, width in merkle.pages(len(hashes)):
            tiles.add(level, index, b"".join(hashes[256 * index : 256 * index + width]))
        hashes = [merkle.root_of(hashes[at : at + 256]) for at in range(0, len(hashes) // 256 * 256, 256)]
        level += 1
    return tiles


@pytest.mark.parametrize("case", cases("tiles"))
def test_tiles(case: dict[str, Any]) -> None:
    path = case["path"]
    if "code" in case:
        assert merkle.parse_path(path) is None
        return
    read = merkle.parse_path(path)
    assert read is not None
    kind, level, index, width = read
    wanted = case["read"]
    assert kind == wanted["kind"]
    if kind == "checkpoint":
        return
    assert (index, width) == (int(wanted["n"]), int(wanted["width"]))
    if kind == "tile":
        assert level == int(wanted["level"])
        assert merkle.tile_path(level, index, width) == path
    else:
        folder = "tile/entries" if kind == "entries" else "heads"
        assert f"{folder}/{merkle.page_path(index, width)}" == path


@pytest.mark.parametrize("case", cases("policies"))
def test_policies(case: dict[str, Any]) -> None:
    octets = unbase64(case["policy_b64"]) if "policy_b64" in case else case["policy"].encode("utf-8")
    if case["code"] is not None:
        with pytest.raises(CounterfoilError) as refused:
            Policy.parse(octets)
        assert isinstance(refused.value, PolicyError)
        assert (refused.value.code, refused.value.line) == (case["code"], case["line"])
        return
    policy = Policy.parse(octets)
    assert [str(log.vkey) for log in policy.logs] == case["logs"]
    assert [str(witness.vkey) for witness in policy.witnesses] == case["witnesses"]
    for cosigners, satisfied in case["quorums"]:
        assert policy.satisfied_by(cosigners) is satisfied


@pytest.mark.parametrize("case", cases("proofs"))
def test_proofs(case: dict[str, Any]) -> None:
    data = unbase64(case["proof_b64"]) if "proof_b64" in case else case["proof"].encode("utf-8")
    entry = unbase64(case["entry_b64"])
    policy = Policy.parse(case["policy"])
    assert code_of(lambda: TlogProof.parse(data).verify(entry, policy)) == case["code"]
    if case["code"] is None:
        proof = TlogProof.parse(data)
        verified = proof.verify(entry, case["policy"])
        assert (verified.index, verified.checkpoint.size) == (int(case["index"]), int(case["size"]))
        assert [policy.witnesses[place].vkey.name for place in verified.witnesses] == case["witnesses"]
        assert TlogProof.parse(str(proof)) == proof


@pytest.mark.parametrize("case", cases("outbox"))
def test_outbox(case: dict[str, Any], tmp_path: Path) -> None:
    directory = tmp_path / "outbox"
    directory.mkdir(mode=0o700)
    for name, encoded in case["files_b64"].items():
        path = directory / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(unbase64(encoded))

    def read() -> dict[str, Any]:
        with OutboxView(directory) as view:
            status = view.status()
        names = ("issuer", "vkey", "closed", "receipts", "acknowledged", "sent", "queued", "alarms")
        return {**{name: getattr(status, name) for name in names}, "torn": status.dropped}

    def opened() -> dict[str, Any]:
        outbox = Outbox(directory, SigningKey("gate.example/support-1", bytes.fromhex(case["seed_hex"])))
        try:
            calls, drops = outbox.work(lambda store: OpenCalls.derive(store, "gate")), Drops()
            outbox.work(drops.read)
            status = outbox.status()
            last = outbox.receipt(outbox.next_seq - 1)
        finally:
            outbox.close()
        kept = directory / "disclosures"
        return {
            "next_seq": status.receipts,
            "head_hex": last.id.hex() if last else None,
            "closed": status.closed,
            "torn": status.dropped,
            "open_calls": sorted(calls.by_seq),
            "drops": {"count": drops.count, "told": drops.told},
            "disclosures": sorted(f"disclosures/{path.name}" for path in kept.iterdir()) if kept.is_dir() else [],
        }

    for what, look in (("read", read), ("opened", opened)):
        wanted = case[what]
        if "code" in wanted:
            assert code_of(look) == wanted["code"], what
        else:
            found = look()
            assert {name: found[name] for name in wanted} == wanted, what


@pytest.mark.parametrize("case", cases("history"))
def test_history(case: dict[str, Any]) -> None:
    index = LogIndex()
    for encoded in case["entries_b64"]:
        index.add(unbase64(encoded), merkle.leaf_hash(unbase64(encoded)))
    assert (index.size, index.root()) == (int(case["size"]), unbase64(case["root_b64"]))
    for query in case["queries"]:
        found = {subject: index.of_subject(subject, index.size, query.get("issuer")) for subject in query["subjects"]}
        listed = {one.id: one for several in found.values() for one in several if one.action_class is not None}
        in_order = sorted(listed.values(), key=lambda one: one.index or 0)
        assert [
            {name: getattr(one, name) for name in ("action_class", "index", "issuer", "seq", "id", "session")}
            for one in in_order
        ] == [{"session": None, **wanted} for wanted in query["classes"]]
        assert {subject: several[-1].id for subject, several in found.items() if several} == query["heads"]
