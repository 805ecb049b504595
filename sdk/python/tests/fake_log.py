"""A log in this process that can be told to misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from counterfoil import merkle
from counterfoil.checkpoints import Checkpoint, sign_checkpoint
from counterfoil.keys import SigningKey
from counterfoil.merkle import decode_page, encode_page, leaf_hash
from counterfoil.proofs import proof_text
from counterfoil.receipts import Receipt

KEY = SigningKey("log.example/fake", bytes([9]) * 32)


class FakeLog:
    """Takes everything in order; ``mode`` says how it misbehaves."""

    def __init__(self) -> None:
        self.mode = "honest"
        self.entries: list[bytes] = []
        self.issuers: dict[str, list[bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.batches: list[int] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self, b"")

            def do_POST(self) -> None:
                outer.answer(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.vkey = str(KEY.verifier)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def leaves(self) -> list[bytes]:
        return [leaf_hash(entry) for entry in self.entries]

    def head(self, size: int | None = None, leaves: list[bytes] | None = None) -> bytes:
        leaves = self.leaves() if leaves is None else leaves
        leaves = leaves[: len(leaves) if size is None else size]
        return sign_checkpoint(len(leaves), merkle.root_of(leaves), KEY)

    def proof(self, index: int) -> str:
        leaves = self.leaves()
        if self.mode == "wrong-tree":
            leaves = [bytes(32), *leaves[1:]]

        def subtree(height: int, place: int) -> bytes:
            return merkle.root_of(leaves[place << height : (place + 1) << height])

        hashes = merkle.prove_inclusion(index, len(leaves), subtree)
        if self.mode == "wrong-proof":
            hashes = [bytes(32) for _ in hashes] or [bytes(32)]
        return proof_text(index, hashes, Checkpoint.parse(self.head(leaves=leaves)))

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append((request.command, request.path))
        if self.mode == "redirect":
            request.send_response(307)
            request.send_header("location", "http://127.0.0.1:1/elsewhere")
            request.send_header("content-length", "0")
            request.end_headers()
            return
        if self.mode == "busy":
            return self.problem(request, 503, "overloaded")
        if self.mode == "slow":
            request.send_response(200)
            request.end_headers()
            for _ in range(100):
                time.sleep(0.1)
                request.wfile.write(b" ")
            return
        if self.mode == "huge":
            request.send_response(200)
            request.send_header("transfer-encoding", "chunked")
            request.end_headers()
            try:
                for _ in range(4096):
                    request.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            except OSError:
                pass
            return
        if self.mode == "garbage":
            return self.send(request, b"<html>hello</html>\n")
        path = request.path.lstrip("/")
        with self.lock:
            if path == "v1/receipts/batch":
                self.send(request, self.batch(decode_page(body)))
            elif path.startswith("v1/issuers/"):
                self.issuer(request, unquote(path.removeprefix("v1/issuers/")))
            elif path == "checkpoint":
                self.send(request, self.head())
            else:
                self.static(request, path)

    def batch(self, entries: list[bytes]) -> bytes:
        self.batches.append(len(entries))
        lines: list[dict[str, Any]] = []
        places: list[tuple[str, Receipt, int]] = []
        for entry in entries:
            receipt = Receipt.parse(entry)
            held = self.issuers.setdefault(receipt.issuer, [])
            if receipt.seq == len(held):
                held.append(entry)
                self.entries.append(entry)
                places.append(("ok", receipt, len(self.entries) - 1))
            elif receipt.seq < len(held) and held[receipt.seq] == entry:
                places.append(("duplicate", receipt, self.entries.index(entry)))
            else:
                code = "gap" if receipt.seq > len(held) else "fork"
                lines_left = {"status": "refused", "code": code, "detail": "x", "expected_seq": len(held)}
                return b"".join(map(self.line, [*map(self.included, places), lines_left])) + b"".join(
                    self.line({"status": "skipped", "code": code, "detail": "x"})
                    for _ in range(len(entries) - len(places) - 1)
                )
        lines = [self.included(place) for place in places]
        return b"".join(map(self.line, lines))

    def included(self, place: tuple[str, Receipt, int]) -> dict[str, Any]:
        status, receipt, index = place
        return {
            "status": status,
            "index": index,
            "issuer": receipt.issuer,
            "seq": receipt.seq,
            "id": receipt.id.hex(),
            "proof": self.proof(index),
        }

    @staticmethod
    def line(document: dict[str, Any]) -> bytes:
        return json.dumps(document).encode() + b"\n"

    def issuer(self, request: BaseHTTPRequestHandler, name: str) -> None:
        if self.mode == "unknown-issuer":
            return self.problem(request, 404, "unknown-issuer")
        if self.mode == "no-log":
            return self.problem(request, 404, "other")
        held = self.issuers.get(name, [])
        document = {
            "name": name,
            "vkey": "x",
            "next_seq": len(held),
            "head": leaf_hash(held[-1]).hex() if held else "0" * 64,
            "closed": False,
        }
        self.send(request, json.dumps(document).encode())

    def static(self, request: BaseHTTPRequestHandler, path: str) -> None:
        read = merkle.parse_path(path)
        if read is None:
            return self.problem(request, 404, "not-found")
        kind, level, index, width = read
        if kind == "entries":
            return self.send(request, encode_page(self.entries[256 * index : 256 * index + width]))
        leaves = self.leaves()
        nodes = [merkle.root_of(leaves[at : at + (1 << 8 * level)]) for at in range(0, len(leaves), 1 << 8 * level)]
        return self.send(request, b"".join(nodes[256 * index : 256 * index + width]))

    def problem(self, request: BaseHTTPRequestHandler, status: int, code: str) -> None:
        body = json.dumps({"code": code, "detail": "as told", "status": status}).encode()
        self.send(request, body, status)

    def send(self, request: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


@contextmanager
def fake_log() -> Iterator[FakeLog]:
    log = FakeLog()
    try:
        yield log
    finally:
        log.close()
