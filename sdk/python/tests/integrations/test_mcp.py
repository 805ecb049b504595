"""A gate before MCP tools, over MCP itself: real servers and clients, in memory."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed")

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from counterfoil import Gate
from counterfoil.integrations._mcp_shapes import peer, reported_error
from counterfoil.integrations.mcp import (
    RECEIPT_ID,
    REQUEST_ID,
    ToolCall,
    ToolDenied,
    Verdict,
    allow,
    deny,
    instrument,
    instrument_client,
    receipted,
)

from .conftest import GateMaker, bodies, receipts


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs it, and not for ever."""
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def text(result: types.CallToolResult) -> str:
    """What a result says."""
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


def gate_receipt_ids(gate: Gate) -> list[str]:
    """The ids of all receipts in the gate's outbox."""
    return [receipt.id.hex() for receipt in receipts(gate)]


class Desk:
    """A server with a tool for each way to end."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.began, self.ended = asyncio.Event(), asyncio.Event()
        self.server = MCPServer("desk")
        for tool in (self.add, self.slow, self.refuse, self.crash, self.report, self.plain):
            self.server.add_tool(tool)

    async def add(self, a: int, b: int) -> int:
        """Adds."""
        self.ran.append("add")
        return a + b

    async def slow(self) -> str:
        """Never ends by itself."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return "never"

    async def refuse(self) -> str:
        """Fails, and says so."""
        raise ToolError("the private reason of customer Bob")

    async def crash(self) -> str:
        """Fails, and did not expect it."""
        raise ZeroDivisionError("the private number 7")

    async def report(self) -> types.CallToolResult:
        """Reports an error in its result."""
        return types.CallToolResult(content=[types.TextContent(type="text", text="the private report")], is_error=True)

    def plain(self, word: str) -> str:
        """Runs in a thread."""
        self.ran.append(word)
        return word.upper()


def pairs(gate: Gate) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each decision with its outcome."""
    found = bodies(gate)
    outcomes = {body["request_id"]: body for body in found if body["type"] == "outcome"}
    assert len(outcomes) == sum(body["type"] == "outcome" for body in found)
    return [(body, outcomes.get(body["request_id"])) for body in found if body["type"] == "decision"]


def call(desk: Desk, tool: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
    """One call of a client."""

    async def once() -> types.CallToolResult:
        async with Client(desk.server, client_info=types.Implementation(name="inbox-agent", version="3")) as client:
            return await client.call_tool(tool, arguments or {})

    result = run(once())
    assert isinstance(result, types.CallToolResult)
    return result


def test_an_allowed_call_leaves_a_decision_before_and_an_outcome_after_and_its_caller_gets_the_receipts_id(
    gate: Gate,
) -> None:
    desk, seen = Desk(), []

    def judge(asked: ToolCall) -> Verdict:
        seen.append(asked)
        return allow(rule="R1", action_class="READ")

    instrument(desk.server, gate, policy=judge, subjects=lambda arguments: [f"sum:{arguments['a']}"])
    result = call(desk, "add", {"a": 2, "b": 3})
    assert (text(result), result.is_error) == ("5", False)
    assert (seen[0].tool, seen[0].arguments) == ("add", {"a": 2, "b": 3})
    [(decision, outcome)] = pairs(gate)
    assert outcome is not None
    assert result.meta is not None
    assert result.meta[RECEIPT_ID] == gate_receipt_ids(gate)[1]
    assert result.meta[REQUEST_ID] == decision["request_id"]
    expected = {
        "decision": "allow",
        "rule": "R1",
        "operation": "add",
        "action_class": "READ",
        "subjects": ["sum:2"],
        "claimed_agent": "inbox-agent",
        "authenticated": False,
        "executes": "gate",
    }
    assert {name: decision.get(name) for name in expected} == expected
    assert decision["args_digest"].startswith("sha256:")
    assert "args" not in decision
    assert "bound_agent" not in decision
    assert (outcome["executed"], outcome.get("error")) == (True, None)
    assert outcome["result_digest"].startswith("sha256:")


def test_a_denied_call_reaches_no_tool_and_its_caller_is_told_the_callers_reason_only(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate, policy=lambda _: deny("ask a person", rule="R2", why="the auditor's business"))
    result = call(desk, "add", {"a": 2, "b": 3})
    assert (text(result), result.is_error, desk.ran) == ("ask a person", True, [])
    [(decision, outcome)] = pairs(gate)
    assert outcome is None
    assert (decision["decision"], decision["rule"], decision["executes"]) == ("deny", "R2", "none")
    assert (decision["why"], decision["caller_reason"]) == ("the auditor's business", "ask a person")
    assert result.meta is not None
    assert (result.meta[RECEIPT_ID], REQUEST_ID in result.meta) == (gate_receipt_ids(gate)[1], False)


def test_a_policy_that_fails_denies(gate: Gate) -> None:
    desk = Desk()

    async def judge(_: ToolCall) -> bool:
        raise LookupError("the private table")

    instrument(desk.server, gate, policy=judge)
    result = call(desk, "add", {"a": 2, "b": 3})
    assert (text(result), result.is_error, desk.ran) == ("not allowed", True, [])
    [(decision, _)] = pairs(gate)
    assert (decision["decision"], decision["rule"], decision["why"]) == (
        "deny",
        "policy-error",
        "the policy raised LookupError",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"subjects": lambda arguments: arguments["nobody"]},
        {"authenticated": lambda asked: asked.nothing},
        {"policy": lambda _: allow(no_such_member=1)},
        {"policy": lambda _: "yes"},
        {"policy": lambda _: None},
    ],
)
def test_whatever_of_the_authors_fails_denies_and_the_caller_learns_nothing_of_it(
    gate: Gate, options: dict[str, Any]
) -> None:
    desk = Desk()
    instrument(desk.server, gate, **options)
    result = call(desk, "add", {"a": 2, "b": 3})
    assert (text(result), result.is_error, desk.ran) == ("not allowed", True, [])
    [(decision, _)] = pairs(gate)
    assert (decision["decision"], decision["rule"], decision["operation"]) == ("deny", "policy-error", "add")


def test_a_member_that_no_decision_has_is_refused_when_the_gate_is_put_there(gate: Gate) -> None:
    wrong: dict[str, Any]
    for wrong in ({"no_such_member": 1}, {"executes": "caller"}):
        with pytest.raises(TypeError, match="has no member"):
            instrument(Desk().server, gate, **wrong)
        with pytest.raises(TypeError, match="has no member"):
            receipted(gate, **wrong)


@pytest.mark.parametrize(
    ("tool", "arguments", "executed", "error"),
    [
        ("refuse", {}, True, "ToolFailed: ToolError"),
        ("crash", {}, True, "ToolFailed: ZeroDivisionError"),
        ("report", {}, True, "ToolFailed: isError"),
        ("nowhere", {}, False, "ToolNotRun: no such tool"),
        ("add", {"a": "the private word", "b": 3}, False, "ToolNotRun: arguments do not fit the tool's schema: a"),
    ],
)
def test_a_tool_that_ran_and_failed_was_executed_and_one_that_was_not_reached_was_not(
    gate: Gate, tool: str, arguments: dict[str, Any], executed: bool, error: str
) -> None:
    desk = Desk()
    instrument(desk.server, gate)
    result = call(desk, tool, arguments)
    assert result.is_error
    [(decision, outcome)] = pairs(gate)
    assert outcome is not None
    assert (outcome["executed"], outcome.get("unknown"), outcome["error"]) == (executed, None, error)
    assert result.meta is not None
    assert (result.meta[RECEIPT_ID], result.meta[REQUEST_ID]) == (gate_receipt_ids(gate)[1], decision["request_id"])
    # What tools and callers say is not in the log.
    assert "private" not in str(bodies(gate))
    assert ("result_digest" in outcome) == (tool == "report")


def test_the_same_failures_reach_the_caller_as_without_a_gate(gate: Gate) -> None:
    for tool, arguments in [("refuse", {}), ("crash", {}), ("report", {}), ("nowhere", {}), ("add", {"a": "x"})]:
        desk, bare = Desk(), Desk()
        instrument(desk.server, gate)
        assert text(call(desk, tool, arguments)) == text(call(bare, tool, arguments))


def test_a_cancelled_call_has_an_unknown_outcome(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate)

    async def cancel() -> None:
        async with Client(desk.server) as client:
            task = asyncio.create_task(client.call_tool("slow"))
            await desk.began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await desk.ended.wait()

    run(cancel())
    [(_, outcome)] = pairs(gate)
    assert outcome is not None
    assert (outcome["executed"], outcome["unknown"], outcome["error"]) == (False, True, "cancelled")


def test_a_tool_added_later_has_the_gate_before_it_too(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate)

    @desk.server.tool()
    def late() -> str:
        return "late"

    assert text(call(desk, "late")) == "late"
    assert [decision["operation"] for decision, _ in pairs(gate)] == ["late"]


def test_concurrent_calls_of_several_clients_each_get_their_own_pair(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate)

    async def many() -> list[types.CallToolResult]:
        async with Client(desk.server) as one, Client(desk.server) as two:
            calls = [(one, two)[i % 2].call_tool("add", {"a": i, "b": i}) for i in range(24)]
            calls += [one.call_tool("plain", {"word": f"w{i}"}) for i in range(8)]
            return list(await asyncio.gather(*calls))

    results = run(many())
    assert [text(result) for result in results] == [str(2 * i) for i in range(24)] + [f"W{i}" for i in range(8)]
    found = pairs(gate)
    assert len(found) == 32
    assert all(outcome is not None and outcome["executed"] for _, outcome in found)
    ids = gate_receipt_ids(gate)
    for result in results:
        assert result.meta is not None
        decision = receipts(gate)[ids.index(result.meta[RECEIPT_ID])].body
        assert decision["request_id"] == result.meta[REQUEST_ID]


SECRET = {"word": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"}


def test_arguments_with_a_credential_are_refused_before_anything_is_signed_and_no_tool_runs(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate, args_mode="clear")
    result = call(desk, "plain", SECRET)
    assert result.is_error
    assert "credential-shaped" in text(result)
    assert "/args/word" in text(result)
    assert SECRET["word"] not in text(result)
    assert (desk.ran, bodies(gate), RECEIPT_ID in (result.meta or {})) == ([], [], False)


def test_no_room_for_a_receipt_means_no_call_unless_the_gate_fails_open(make_gate: GateMaker) -> None:
    closed, opened = make_gate(max_queued=1), make_gate(max_queued=1, when_full="fail_open")
    for gate, ran in [(closed, []), (opened, ["word"])]:
        desk = Desk()
        instrument(desk.server, gate)
        result = call(desk, "plain", {"word": "word"})
        assert (desk.ran, result.is_error) == (ran, not ran)
        if ran:
            assert result.meta is not None
            assert RECEIPT_ID not in result.meta
        else:
            assert text(result) == "not run, no receipt could be written (outbox-full)"
        assert bodies(gate) == []


def test_progress_and_structured_results_pass_through_both_gates(make_gate: GateMaker) -> None:
    server, before, behind, told = MCPServer("one"), make_gate(), make_gate(), []

    @server.tool()
    async def count(to: int, ctx: Context) -> dict[str, int]:
        await ctx.report_progress(1, to)
        return {"counted": to}

    instrument(server, behind)

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async def once() -> types.CallToolResult:
        async with Client(server) as client:
            instrument_client(client, before)
            return await client.call_tool("count", {"to": 2}, progress_callback=tell)

    result = run(once())
    assert result.structured_content == {"counted": 2}
    assert told == [(1, 2)]
    [(_, first)], [(_, second)] = pairs(before), pairs(behind)
    assert first is not None
    assert second is not None
    # Both read the same result, so their digests are one.
    assert first["result_digest"] == second["result_digest"]
    # The caller gets the receipt of the gate that it asked, not of the one behind it.
    assert result.meta is not None
    assert result.meta[REQUEST_ID] == first["request_id"]


def test_a_tool_that_calls_another_leaves_receipts_of_both(gate: Gate) -> None:
    desk = Desk()
    instrument(desk.server, gate)

    @desk.server.tool()
    async def twice(of: int) -> str:
        with pytest.raises(ToolError):
            await desk.server.call_tool("refuse", {})
        inner = await desk.server.call_tool("add", {"a": of, "b": of})
        assert isinstance(inner, types.CallToolResult)
        return text(inner)

    result = call(desk, "twice", {"of": 4})
    assert text(result) == "8"
    found = pairs(gate)
    assert [(decision["operation"], outcome and outcome.get("error")) for decision, outcome in found] == [
        ("twice", None),
        ("refuse", "ToolFailed: ToolError"),
        ("add", None),
    ]
    # The caller gets the receipt of the call that was his.
    assert result.meta is not None
    assert result.meta[REQUEST_ID] == found[0][0]["request_id"]


def test_a_server_that_dies_before_it_answers_leaves_an_unknown_outcome(gate: Gate, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import os\nfrom mcp.server import MCPServer\nserver = MCPServer('mortal')\n"
        "@server.tool()\ndef die() -> str:\n    os._exit(1)\nserver.run()\n"
    )

    async def work() -> None:
        mortal = StdioServerParameters(command=sys.executable, args=[str(program)])
        async with Client(stdio_client(mortal)) as client:
            instrument_client(client, gate)
            with pytest.raises(MCPError, match=r"[Cc]losed"):
                await client.call_tool("die")

    run(work())
    [(_, outcome)] = pairs(gate)
    assert outcome is not None
    assert (outcome["executed"], outcome["unknown"]) == (False, True)


def test_a_session_over_http_is_named_by_a_hash_of_its_id(gate: Gate) -> None:
    class Request:
        headers: ClassVar = {"mcp-session-id": "the-secret-id"}

    class Asked:
        lifespan_context: ClassVar[dict[str, Any]] = {}
        session = object()
        request = Request()

    assert peer(Asked()) == (None, f"mcp-{hashlib.sha256(b'the-secret-id').hexdigest()[:16]}")
    assert peer(None) == (None, None)


def test_a_low_level_server_has_the_gate_before_its_handler(gate: Gate) -> None:
    ran: list[str] = []

    async def on_call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        ran.append(params.name)
        said = types.TextContent(type="text", text=params.name)
        return types.CallToolResult(content=[said], is_error=params.name == "bad")

    async def on_list(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    server: Server[Any] = Server("low", on_call_tool=on_call, on_list_tools=on_list)
    instrument(server, gate, policy=lambda asked: asked.tool != "no")

    async def calls() -> list[types.CallToolResult]:
        async with Client(server) as client:
            await client.list_tools()
            return [await client.call_tool(name) for name in ("good", "bad", "no")]

    results = run(calls())
    assert [result.is_error for result in results] == [False, True, True]
    assert [text(result) for result in results] == ["good", "bad", "not allowed"]
    assert ran == ["good", "bad"]
    assert all(result.meta is not None and RECEIPT_ID in result.meta for result in results)
    said = [(decision["decision"], outcome and outcome.get("error")) for decision, outcome in pairs(gate)]
    assert said == [("allow", None), ("allow", "ToolFailed: isError"), ("deny", None)]


def test_a_result_that_asks_for_more_input_is_no_clean_end() -> None:
    assert reported_error(types.InputRequiredResult(request_state="asked")) == "input required"
    assert reported_error({"resultType": "input_required"}) == "input required"
    assert reported_error({"isError": 1, "resultType": "complete"}) is None
    assert reported_error("text") is None


def test_a_server_that_cannot_be_instrumented_is_refused(gate: Gate) -> None:
    with pytest.raises(TypeError, match="receipted"):
        instrument(object(), gate)


def through_client(desk: Desk, gate: Gate, work: Callable[[Client], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """What comes of `work` with a client that has the gate before it; the server knows nothing of it."""

    async def connected() -> Any:
        async with Client(desk.server) as client:
            instrument_client(client, gate, **options)
            return await work(client)

    return run(connected())


def test_before_a_client_the_decision_is_durable_before_the_request_leaves(gate: Gate) -> None:
    desk, when_it_ran = Desk(), []

    @desk.server.tool()
    def look() -> str:
        when_it_ran.extend(bodies(gate))
        return "seen"

    async def work(client: Client) -> types.CallToolResult:
        return await client.call_tool("look")

    result = through_client(desk, gate, work, claimed_agent="support-agent", action_class="READ")
    assert text(result) == "seen"
    assert result.meta[RECEIPT_ID] == gate_receipt_ids(gate)[1]
    assert [body["decision"] for body in when_it_ran] == ["allow"]
    [(decision, outcome)] = pairs(gate)
    assert (decision["claimed_agent"], decision["action_class"]) == ("support-agent", "READ")
    assert decision["session"].startswith("mcp-")
    assert outcome is not None
    assert outcome["executed"]


def test_what_is_denied_before_a_client_never_reaches_the_server(gate: Gate) -> None:
    desk = Desk()

    async def work(client: Client) -> list[types.CallToolResult]:
        return [await client.call_tool("plain", {"word": word}) for word in ("good", "bad")]

    results = through_client(desk, gate, work, policy=lambda asked: asked.arguments["word"] == "good")
    assert [result.is_error for result in results] == [False, True]
    assert desk.ran == ["good"]
    assert [decision["decision"] for decision, _ in pairs(gate)] == ["allow", "deny"]


def test_a_request_that_is_not_answered_in_time_has_an_unknown_outcome(gate: Gate) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(Exception, match=r"[Tt]imed out"):
            await client.call_tool("slow", read_timeout_seconds=0.05)

    through_client(Desk(), gate, work)
    [(_, outcome)] = pairs(gate)
    assert outcome is not None
    assert (outcome["executed"], outcome["unknown"]) == (False, True)
    assert outcome["error"].startswith("ToolUnknown: MCPError")


def test_a_client_that_is_cancelled_has_an_unknown_outcome(gate: Gate) -> None:
    desk = Desk()

    async def work(client: Client) -> None:
        task = asyncio.create_task(client.call_tool("slow"))
        await desk.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    through_client(desk, gate, work)
    [(_, outcome)] = pairs(gate)
    assert outcome is not None
    assert (outcome["executed"], outcome["unknown"], outcome["error"]) == (False, True, "cancelled")


def test_a_result_with_an_error_ran_and_what_the_server_refuses_did_not(gate: Gate) -> None:
    server: Server[Any] = Server("without tools")

    async def bare() -> None:
        async with Client(server) as client:
            instrument_client(client, gate)
            with pytest.raises(Exception, match=r"[Mm]ethod not found"):
                await client.call_tool("add")

    run(bare())

    async def work(client: Client) -> types.CallToolResult:
        return await client.call_tool("report")

    assert text(through_client(Desk(), gate, work)) == "the private report"
    found = [(outcome["executed"], outcome["error"]) for _, outcome in pairs(gate) if outcome is not None]
    assert found == [(False, "ToolNotRun: refused by the server (-32601)"), (True, "ToolFailed: isError")]


def test_a_decorated_tool_judges_its_own_arguments_and_leaves_the_context_out(gate: Gate) -> None:
    server, ran = MCPServer("one"), []

    def judge(asked: ToolCall) -> Verdict:
        return allow() if asked.arguments["amount"] < 100 else deny("too much", rule="R_LIMIT")

    @server.tool()
    @receipted(gate, policy=judge, action_class="PAY", subjects=lambda arguments: [arguments["to"]], args_mode="clear")
    async def pay(to: str, ctx: Context, amount: int = 5) -> str:
        ran.append(amount)
        return f"paid {amount}"

    async def calls() -> list[types.CallToolResult]:
        async with Client(server, client_info=types.Implementation(name="payer", version="1")) as client:
            listed = (await client.list_tools()).tools[0].input_schema
            assert set(listed["properties"]) == {"to", "amount"}
            return [await client.call_tool("pay", each) for each in ({"to": "ada"}, {"to": "ada", "amount": 100})]

    results = run(calls())
    assert [result.is_error for result in results] == [False, True]
    assert text(results[1]).endswith("too much")
    assert ran == [5]
    [(allowed, outcome), (denied, _)] = pairs(gate)
    assert (allowed["args"], allowed["subjects"]) == ({"to": "ada", "amount": 5}, ["ada"])
    assert (allowed["claimed_agent"], allowed["action_class"]) == ("payer", "PAY")
    assert outcome is not None
    assert outcome["executed"]
    assert (denied["decision"], denied["rule"]) == ("deny", "R_LIMIT")


def test_a_decorated_plain_function_outside_any_server_behaves_as_before(gate: Gate) -> None:
    @receipted(gate, operation="halve")
    def half(of: int, *, strict: bool = True) -> dict[str, int]:
        """Halves."""
        if strict and of % 2:
            raise ValueError("the private number")
        return {"content": of // 2}

    assert half(4) == {"content": 2}
    assert (half.__name__, half.__doc__) == ("half", "Halves.")
    with pytest.raises(ValueError, match="the private number"):
        half(3)
    found = [(outcome["executed"], outcome.get("error")) for _, outcome in pairs(gate) if outcome is not None]
    assert found == [(True, None), (True, "ToolFailed: ValueError")]


def test_a_decorated_function_that_is_denied_raises_and_does_not_run(gate: Gate) -> None:
    ran = []

    @receipted(gate, policy=lambda _: deny("no"))
    def act() -> None:
        ran.append(1)

    with pytest.raises(ToolDenied, match="no") as denied:
        act()
    assert (ran, denied.value.receipt_id, denied.value.code) == ([], gate_receipt_ids(gate)[1], "denied")
