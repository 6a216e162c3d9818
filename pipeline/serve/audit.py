"""Write the server's lines of the audit log: questions with what they were shown, edits, and who
has signed in."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.errors import RequestEndedError
from pipeline.project import Project
from pipeline.query.answer import Answer
from pipeline.query.context import Reference
from pipeline.query.stream import Done, Event, Failed, Sources
from pipeline.runs.audit import AuditLog, audit_log_of
from pipeline.serve.access import Access
from pipeline.serve.failures import failure_of

BROKEN_OFF = "broken off"
"""The outcome of a question whose client has disconnected, or whose time was over."""


@dataclass(frozen=True)
class Audit:
    """The server's part of the audit log. Without a ``log`` in the settings nothing is written.

    The line of a question is written before its answer is sent, so that no question is answered
    without one. The line of a stream is written before its last event.
    """

    log: AuditLog | None

    def answered(self, access: Access, question: str, find: Callable[[], Answer]) -> Answer:
        """Call ``find``, write a line about the question, and return the answer.

        Raises what ``find`` raises, after a line about that.
        """
        with self.refusals(access, question):
            found = find()
        self._answer(access, question, found)
        return found

    @contextmanager
    def refusals(self, access: Access, question: str) -> Iterator[None]:
        """Write a line about a question that fails in the block, with the reason."""
        try:
            yield
        except Exception as error:
            if self.log is not None:
                self._question(access, question, outcome=_outcome(error))
            raise

    def streamed(self, access: Access, question: str, events: Iterator[Event]) -> Generator[Event]:
        """Yield the events, and write a line about how they end. Raises what they raise."""
        outcome, shown, written = BROKEN_OFF, (), False
        try:
            for event in events:
                match event:
                    case Sources():
                        shown = event.context.references
                    case Done():
                        self._answer(access, question, event.answer)
                        written = True
                    case Failed():
                        outcome = _outcome(event.error)
                yield event
        except Exception as error:
            outcome = _outcome(error)
            raise
        finally:
            if not written and self.log is not None:
                self._question(access, question, outcome=outcome, passages=_passages(shown))

    async def signed_in(
        self, how: str, outcome: str, address: str, access: Access | None = None, user: str = ""
    ) -> None:
        """Write a line about a sign-in or a sign-out.

        ``how`` is key, token, oidc or out (a sign-out), and ``outcome`` is ok or refused.
        ``address`` is the sender's.
        """
        if self.log is not None:
            who = who_of(access) if access else {"key": "", "user": user}
            line = partial(
                self.log.add, "sign-in", how=how, outcome=outcome, address=address, **who
            )
            # It may wait for another process that holds the log, which must not stop the loop.
            await run_in_threadpool(line)

    async def edited(self, access: Access, path: str, status: int, text: str | None) -> None:
        """Write a line about an edit, with the status of its answer. ``text`` says what a person
        has entered, if anything."""
        if self.log is not None:
            who = who_of(access)
            about = {"workspace": access.workspace, "path": path, "status": status}
            line = partial(self.log.add, "edit", text, **who, **about)
            # It may wait for another process that holds the log, which must not stop the loop.
            await run_in_threadpool(line)

    def _answer(self, access: Access, question: str, found: Answer) -> None:
        if self.log is None:
            return
        chat = access.project.settings.models.chat.get(found.request.model)
        asked = chat is not None and any(found.usage.values())
        self._question(
            access, question, outcome=found.abstention or "answered",
            passages=_passages(found.context.references),
            question_id=found.question_id, mode=found.request.mode,
            model=chat.model if asked and chat else "",
            cost=found.cost, loaded=found.loaded,
        )  # fmt: skip

    def _question(self, access: Access, question: str, **fields: Any) -> None:
        assert self.log is not None
        self.log.add("question", question, **who_of(access), workspace=access.workspace, **fields)


def audit_of(project: Project) -> Audit:
    return Audit(audit_log_of(project.root, project.settings.serve.audit))


def who_of(access: Access) -> Mapping[str, str]:
    return {"key": access.caller.name, "user": access.user}


def _outcome(error: Exception) -> str:
    if isinstance(error, RequestEndedError):
        return BROKEN_OFF
    return failure_of(error, sees_internals=True).type


def _passages(references: tuple[Reference, ...]) -> list[dict[str, str]]:
    return [
        {"document": one.document_id, "unit": one.chunk_id, "source": one.source}
        for one in references
    ]


@dataclass(frozen=True)
class AuditedEdits:
    """An ASGI application around another that writes a line for each request of an editor.

    ``scope["edit"]`` is a dictionary which the dependency ``editor`` fills, so that no route of an
    editor can be left out.
    """

    app: ASGIApp
    audit: Audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.audit.log is None:
            return await self.app(scope, receive, send)
        edit: dict[str, Any] = {}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and "path" in edit:
                await self.audit.edited(
                    scope["access"], edit["path"], message["status"], edit.get("text")
                )
            await send(message)

        await self.app({**scope, "edit": edit}, receive, noted)
