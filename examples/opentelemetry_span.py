"""Spans that name the receipt of what was decided in them: one line, `observe(gate)`.

python examples/opentelemetry_span.py
"""

from __future__ import annotations

from local_log import local_log, show
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from counterfoil import Gate
from counterfoil.integrations.opentelemetry import observe


def brief(span: ReadableSpan) -> str:
    """What is ours of a span."""
    lines = [f"span {span.name}"]
    lines += [f"  {name} = {value!s}" for name, value in sorted((span.attributes or {}).items())]
    for event in span.events:
        lines.append(f"  event {event.name}")
        lines += [f"    {name} = {value!s}" for name, value in sorted((event.attributes or {}).items())]
    return "\n".join(lines) + "\n"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=brief)))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("agent")

with local_log(__doc__) as log, Gate(log.outbox, log.key, log.url, log.vkey, policy=log.policy or None) as gate:
    observe(gate)
    allowed = gate.decision(operation="mail.send", subjects=["customer:7"], authenticated=True)
    with tracer.start_as_current_span("send the invoice"), allowed as act:
        act.call(lambda: "sent")
    with tracer.start_as_current_span("delete the customer"):
        gate.deny(operation="customer.delete", rule="R2_PURPOSE", authenticated=True)
    show(gate)
