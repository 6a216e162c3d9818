"""Spans of OpenTelemetry for runs, steps, calls of models and questions (extra ``otel``).

Spans say what ran, for how long, how much it took and how it ended. No text of a document, a
question, a prompt or a reply is in them, nor a message of an error, which may quote one. Unless
``begin`` is called, nothing of OpenTelemetry is imported, and a span costs one comparison.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")
Value = str | int | float
PATIENCE = 5.0
"""Seconds that a collector has to take spans. What it does not take is lost; no run waits for it
longer than that at its end."""


@dataclass
class _State:
    """``outer`` is the context of the step under way, or of the run. Calls of models are made in
    other threads, and find it here."""

    tracer: Any = None
    outer: Any = None


_STATE = _State()


def begin(endpoint: str) -> None:
    """Send spans to a collector that speaks OTLP over HTTP, for as long as this process lives.

    Raises ImportError if the extra is not installed. A second call changes nothing.
    """
    if _STATE.tracer is not None:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # pyright: ignore[reportMissingImports]
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # pyright: ignore[reportMissingImports]
    from opentelemetry.sdk.trace import TracerProvider  # pyright: ignore[reportMissingImports]
    from opentelemetry.sdk.trace.export import (  # pyright: ignore[reportMissingImports]
        BatchSpanProcessor,
    )

    provider = TracerProvider(resource=Resource.create({"service.name": "graphmill"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=PATIENCE)))
    use(provider.get_tracer("graphmill"))


def use(tracer: Any) -> None:
    """Make spans by this tracer from now on; None makes no spans any more."""
    _STATE.tracer = tracer


def span(name: str, **attributes: Value) -> AbstractContextManager[None]:
    """Return a context manager that makes a span of a part of a run.

    Calls of models inside are below it, in whatever thread they are made.
    """
    return nullcontext() if _STATE.tracer is None else _opened(name, attributes)


def question_span(mode: str) -> AbstractContextManager[None]:
    """Return a context manager that makes a span of a question; others may run beside it."""
    return (
        nullcontext()
        if _STATE.tracer is None
        else _opened_beside("graphmill.query", {"mode": mode})
    )


@contextmanager
def _opened_beside(name: str, attributes: dict[str, Value]) -> Iterator[None]:
    from opentelemetry import trace

    made = _STATE.tracer.start_span(name, attributes=attributes)
    try:
        with trace.use_span(made, record_exception=False, set_status_on_exception=False):
            yield
    except Exception as error:
        _mark_failed(made, error)
        raise
    finally:
        made.end()


@contextmanager
def _opened(name: str, attributes: dict[str, Value]) -> Iterator[None]:
    from opentelemetry import trace

    before = _STATE.outer
    made = _STATE.tracer.start_span(name, context=before, attributes=attributes)
    _STATE.outer = trace.set_span_in_context(made)
    try:
        yield
    except BaseException as error:
        _mark_failed(made, error)
        raise
    finally:
        _STATE.outer = before
        made.end()


def note_call(name: str, seconds: float, **attributes: Value) -> None:
    """Make a span of a call that has just ended, after so many seconds."""
    if _STATE.tracer is None:
        return
    from opentelemetry import trace

    in_question = trace.get_current_span().get_span_context().is_valid
    # None stands for the span of this thread.
    parent = None if in_question else _STATE.outer
    ended = time.time_ns()
    started = ended - round(seconds * 1e9)
    made = _STATE.tracer.start_span(name, context=parent, attributes=attributes, start_time=started)
    made.end(end_time=ended)


def question_events(events: Iterator[Item], mode: str) -> Iterator[Item]:
    """Return the events of a streamed question, with a span from the first one to the last."""
    return events if _STATE.tracer is None else _spanned(events, mode)


def _spanned(events: Iterator[Item], mode: str) -> Iterator[Item]:
    # A generator must not set the span of its thread: its caller would see it between two events.
    made = _STATE.tracer.start_span("graphmill.query", attributes={"mode": mode, "streamed": True})
    try:
        yield from events
    except Exception as error:
        _mark_failed(made, error)
        raise
    finally:
        made.end()


def _mark_failed(made: Any, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    made.set_status(Status(StatusCode.ERROR, type(error).__name__))
