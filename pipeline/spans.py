"""Spans of OpenTelemetry for runs, steps, calls of models and questions (extra ``otel``).

Spans say what ran, for how long, how much it took and how it ended. No text of a document, a
question, a prompt or a reply is in them, nor a message of an error, which may quote one. Unless
``begin`` is called, nothing of OpenTelemetry is imported, and a span costs one comparison.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
_END = object()
Value = str | int | float
PATIENCE = 5.0
"""Seconds that a collector has to take spans. What it does not take is lost; no run waits for it
longer than that at its end."""


@dataclass
class _State:
    tracer: Any = None


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
    """Return a context manager that makes a span, below that of this thread if there is one."""
    return nullcontext() if _STATE.tracer is None else _opened(name, attributes)


def question_span(mode: str) -> AbstractContextManager[None]:
    """Return a context manager that makes a span of a question."""
    return span("graphmill.query", mode=mode)


@contextmanager
def _opened(name: str, attributes: dict[str, Value]) -> Iterator[None]:
    made = _STATE.tracer.start_span(name, attributes=attributes)
    try:
        with below(made):
            yield
    except BaseException as error:
        _mark_failed(made, error)
        raise
    finally:
        made.end()


def current_span() -> Any:
    """Return the span of this thread, for ``below`` in another thread; None without a tracer."""
    if _STATE.tracer is None:
        return None
    from opentelemetry import trace

    return trace.get_current_span()


def below(made: Any) -> AbstractContextManager[Any]:
    """Return a context manager in which spans of this thread are below one that is open.

    ``made`` is None without a tracer.
    """
    if made is None:
        return nullcontext()
    from opentelemetry import trace

    return trace.use_span(made, record_exception=False, set_status_on_exception=False)


def note_call(name: str, seconds: float, **attributes: Value) -> None:
    """Make a span of a call that has just ended, after so many seconds."""
    if _STATE.tracer is None:
        return
    ended = time.time_ns()
    started = ended - round(seconds * 1e9)
    made = _STATE.tracer.start_span(name, attributes=attributes, start_time=started)
    made.end(end_time=ended)


def question_events(events: Iterator[Item], mode: str) -> Iterator[Item]:
    """Return the events of a streamed question, with a span from the first one to the last."""
    return events if _STATE.tracer is None else _spanned(events, mode)


def _spanned(events: Iterator[Item], mode: str) -> Iterator[Item]:
    made = _STATE.tracer.start_span("graphmill.query", attributes={"mode": mode, "streamed": True})
    try:
        while True:
            # Only while an event is made: the caller must not see this span between two events,
            # and may ask for the next one in another thread.
            with below(made):
                event = next(events, _END)
            if event is _END:
                return
            yield cast("Item", event)
    except Exception as error:
        _mark_failed(made, error)
        raise
    finally:
        # A call that is under way ends when its stream is closed.
        close = getattr(events, "close", None)
        with below(made):
            if close is not None:
                close()
        made.end()


def _mark_failed(made: Any, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    made.set_status(Status(StatusCode.ERROR, type(error).__name__))
