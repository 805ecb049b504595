"""Where receipts come from in programs that exist already: MCP servers and clients, logging, OpenTelemetry.

Nothing here is imported by the package itself, so that each integration needs what it integrates with and no other.
"""
