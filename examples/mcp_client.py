"""A gate in front of an MCP server that somebody else runs: `instrument_client(session, gate, policy=judge)`.

    python examples/mcp_client.py

starts such a server (this file with `--serve`), and calls it. What is denied never reaches it.
"""

from __future__ import annotations

import asyncio
import os
import sys

from local_log import local_log, show
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server import MCPServer

from counterfoil import Gate
from counterfoil.integrations.mcp import RECEIPT_ID, ToolCall, Verdict, allow, deny, instrument_client


def serve() -> None:
    """The other's server: it knows nothing of receipts."""
    server = MCPServer("mail")

    @server.tool()
    def send(to: str, text: str) -> str:
        """Sends a message."""
        return f"sent to {to}"

    @server.tool()
    async def wait() -> str:
        """Takes its time."""
        await asyncio.sleep(3600)
        return "done"

    server.run()


def judge(call: ToolCall) -> Verdict:
    """Mail goes to our own people only."""
    if call.tool == "send" and not str(call.arguments.get("to")).endswith("@example.com"):
        return deny("this address is not ours", rule="R3_OWN_PEOPLE", action_class="EGRESS")
    return allow(rule="R0", action_class="EGRESS" if call.tool == "send" else "READ")


async def main() -> None:
    """An allowed call, a denied one, and one that is not answered in time."""
    other = StdioServerParameters(command=sys.executable, args=[__file__, "--serve"], env=dict(os.environ))
    with local_log(__doc__) as log, Gate(log.outbox, log.key, log.url, log.vkey, policy=log.policy or None) as gate:
        async with Client(stdio_client(other)) as client:
            instrument_client(client, gate, policy=judge, claimed_agent="support-agent")
            for to in ("ada@example.com", "eve@elsewhere.example"):
                result = await client.call_tool("send", {"to": to, "text": "hello"})
                receipt = (result.meta or {})[RECEIPT_ID]
                print(f"send to {to}: {getattr(result.content[0], 'text', '')!r}, receipt {receipt[:12]}...")
            try:
                await client.call_tool("wait", read_timeout_seconds=0.2)
            except Exception as error:
                print(f"wait: {error}; whether it ran, nobody here knows, and the receipt says so")
        show(gate)


if "--serve" in sys.argv:
    serve()
else:
    asyncio.run(main())
