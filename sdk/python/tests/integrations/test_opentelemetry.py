"""Spans that name the receipts of what was decided in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from counterfoil import Gate
from counterfoil.integrations.opentelemetry import DECISION, OUTCOME, RECEIPT_ID, REQUEST_ID, observe

from .conftest import GateMaker, receipts


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What was exported."""
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
def tracer(spans: InMemorySpanExporter) -> Tracer:
    """A tracer of its own: the global one can be set once only."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("test")


def test_a_span_names_the_decision_made_in_it_and_how_it_ended(
    gate: Gate, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    observe(gate)
    with tracer.start_as_current_span("work"), gate.decision(operation="a", authenticated=True) as act:
        act.call(lambda: None)
    [span] = spans.get_finished_spans()
    assert span.attributes == {RECEIPT_ID: act.receipt_id, REQUEST_ID: act.request_id, DECISION: "allow"}
    [event] = span.events
    assert event.name == OUTCOME
    assert event.attributes == {
        RECEIPT_ID: receipts(gate)[2].id.hex(),
        REQUEST_ID: act.request_id,
        "counterfoil.executed": True,
    }


def test_a_span_tells_of_denials_failures_and_unknown_outcomes(
    gate: Gate, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    observe(gate)
    with tracer.start_as_current_span("denied"):
        denial = gate.deny(operation="a", authenticated=True)
    allowed = gate.decision(operation="a", authenticated=True)
    with pytest.raises(LookupError), tracer.start_as_current_span("failed"), allowed:
        raise LookupError("gone")
    allowed = gate.decision(operation="a", authenticated=True)
    with pytest.raises(KeyboardInterrupt), tracer.start_as_current_span("stopped"), allowed:
        raise KeyboardInterrupt
    denied, failed, stopped = spans.get_finished_spans()
    assert denied.attributes is not None
    assert denial is not None
    assert (denied.attributes[RECEIPT_ID], denied.attributes[DECISION]) == (denial.id.hex(), "deny")
    assert denied.events == ()
    [outcome] = [event for event in failed.events if event.name == OUTCOME]
    assert outcome.attributes is not None
    assert (outcome.attributes["counterfoil.executed"], outcome.attributes["counterfoil.error"]) == (
        False,
        "LookupError: gone",
    )
    [outcome] = [event for event in stopped.events if event.name == OUTCOME]
    assert outcome.attributes is not None
    assert outcome.attributes["counterfoil.unknown"] is True


def test_a_drop_leaves_a_span_without_a_receipts_id(
    make_gate: GateMaker, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    gate = make_gate(max_queued=1, when_full="fail_open")
    observe(gate)
    with tracer.start_as_current_span("work"), gate.decision(operation="a", authenticated=True) as act:
        pass
    [span] = spans.get_finished_spans()
    assert span.attributes == {REQUEST_ID: act.request_id, DECISION: "allow"}


def test_without_a_span_and_after_its_end_nothing_is_told(
    gate: Gate, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    stop = observe(gate)
    with gate.decision(operation="a", authenticated=True):
        pass
    stop()
    stop()
    with tracer.start_as_current_span("work"), gate.decision(operation="a", authenticated=True):
        pass
    [span] = spans.get_finished_spans()
    assert (dict(span.attributes or {}), span.events) == ({}, ())


def test_an_observer_that_fails_stops_no_action(gate: Gate) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("an observer's own fault")

    gate.observers.append(fail)
    with gate.decision(operation="a", authenticated=True) as act:
        assert act.call(lambda: 7) == 7
    assert receipts(gate)[2].body["executed"] is True
