"""An MCP server whose every tool call leaves a receipt: one line, `instrument(server, gate, policy=judge)`.

    python examples/mcp_server.py

calls its tools from a client in the same process. In earnest the last lines would be `server.run()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from local_log import local_log, show
from mcp import Client
from mcp.server import MCPServer

from counterfoil import Gate
from counterfoil.integrations.mcp import RECEIPT_ID, ToolCall, Verdict, allow, deny, instrument

server = MCPServer("customers", log_level="CRITICAL")
CLASSES = {"read_customer": "READ", "delete_customer": "DELETE"}


@server.tool()
def read_customer(number: int) -> str:
    """Reads a customer's plan."""
    if number == 0:
        raise LookupError("no such customer")
    return f"customer {number} pays yearly"


@server.tool()
def delete_customer(number: int) -> str:
    """Deletes a customer."""
    raise AssertionError("no policy here lets this run")


def subjects(arguments: Mapping[str, Any]) -> list[str]:
    """Whom a call is about: what an auditor joins the histories by."""
    return [f"customer:{arguments.get('number')}"]


def judge(call: ToolCall) -> Verdict:
    """Reading is allowed. The caller is told `caller_reason`, the auditor `rule` and `why` too."""
    action_class = CLASSES.get(call.tool)
    if action_class == "READ":
        return allow(rule="R1_READING", action_class=action_class)
    return deny("ask a person", rule="R2_NO_DELETION", why="nothing is deleted by agents", action_class=action_class)


async def main() -> None:
    """Four calls, as a client sees them."""
    with local_log(__doc__) as log, Gate(log.outbox, log.key, log.url, log.vkey, policy=log.policy or None) as gate:
        instrument(server, gate, policy=judge, subjects=subjects)
        async with Client(server) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("read_customer", {"number": 7}),
                ("read_customer", {"number": 0}),
                ("read_customer", {"number": "seven"}),
                ("delete_customer", {"number": 7}),
            ]
            for tool, arguments in calls:
                result = await client.call_tool(tool, arguments)
                said = getattr(result.content[0], "text", "").partition("\n")[0]
                receipt = (result.meta or {})[RECEIPT_ID]
                print(f"{tool}({arguments}): {said!r}, receipt {receipt[:12]}...")
        show(gate)


asyncio.run(main())
