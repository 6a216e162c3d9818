"""Chat and embedding models that are Python functions or classes, synchronous or asynchronous."""

import asyncio
import inspect
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from pipeline.errors import GraphmillError, SettingsError, in_words
from pipeline.event_loop import event_loop
from pipeline.models.base import Reply
from pipeline.models.conversations import made_once
from pipeline.models.endpoint.client import Failure
from pipeline.models.endpoint.in_process import Body, InProcessEndpoint
from pipeline.text.ids import digest

PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Exceptions after which a second call would end in the same way. Others, such as network errors,
may be transient."""


KEPT_BACK = frozenset({"messages", "model", "input", "stream", "stream_options", "encoding_format"})
"""Fields of a request that are not options. A function receives them only if it names them."""


OWN_FOLDERS: set[str] = set()
"""Folders that were added to the import path for modules of projects."""


class FunctionError(Exception):
    """The exception of a function (``__cause__``), or the reason why its result cannot be used."""


@dataclass(frozen=True)
class FunctionEndpoint(InProcessEndpoint):
    """Endpoint whose answers come from a function.

    ``function``: "module:name", or the function or class itself. ``name``: the function's name in
    messages. ``root``: the project's folder. ``wanted``: options of the settings that the function
    must accept.

    A module is a file in ``root`` or else an installed module. A class is instantiated once,
    without arguments, and the instance is called.
    """

    function: Any = ""
    name: str = ""
    root: Path = field(default=Path(), repr=False)
    wanted: tuple[str, ...] = ()

    provider: ClassVar[str] = "python"

    @property
    def address(self) -> str:
        return self.name

    def preflight(self) -> None:
        """Find the function, and check that it accepts the options that are set. The function is
        not called.

        Raises SettingsError.
        """
        _ = self._callable
        missing = [name for name in self.wanted if not self._takes(name)]
        if missing:
            fact = f"{missing[0]} is set, and {self.name} has no such parameter"
            raise SettingsError(
                f"{self.where}: {fact}; add it to the function, or remove the setting"
            )

    def chat(self, body: Body, seconds: float) -> Body | Iterator[Body]:
        """Call the function with the messages and with those options that it accepts.

        Raises FunctionError if the result is neither a text nor a Reply.
        """
        options = {name: value for name, value in body.items() if self._takes(name)}
        answer = self._call(seconds, body["messages"], **options)
        reply = Reply(answer) if isinstance(answer, str) else answer
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise FunctionError(f"gave {_type_name(answer)} instead of a text or a Reply")
        return _stream_reply(reply) if body.get("stream") else _completion(reply)

    def embed(self, body: Body, seconds: float) -> Body:
        """Call the function with a list of texts. Raises FunctionError if the result is not one
        vector per text."""
        texts = body["input"]
        answer = self._call(seconds, texts)
        try:
            vectors = np.asarray(() if answer is None else answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise FunctionError(
                f"gave {_type_name(answer)} instead of a vector of numbers for each text"
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts):
            shape = "nothing"
            if answer is not None:
                shape = "x".join(map(str, vectors.shape)) or "one number"
            raise FunctionError(
                f"gave {shape} for {len(texts)} texts instead of a vector of numbers for each"
            )
        data = [
            {"object": "embedding", "index": row, "embedding": list(map(float, vector))}
            for row, vector in enumerate(vectors)
        ]
        return {"object": "list", "model": self.model, "data": data}

    def own_failure(self, error: BaseException) -> Failure | None:
        """Return the failure of a function that raised an exception or gave an unusable result, or
        None.

        An exception with the HTTP status of a provider's client is judged by that status.
        """
        if not isinstance(error, FunctionError):
            return None
        raised = error.__cause__
        if raised is None:
            return Failure("bad_request", f"{self.name} {self._safe(str(error))}")
        # A function raises one of graphmill's errors to say that no other call can succeed.
        if isinstance(raised, GraphmillError):
            raised.args = (self.mask(str(raised)),)
            return Failure("bad_request", f"{self.name}: {raised}", fatal=raised)
        said = self._safe(f"{type(raised).__name__}: {raised}".rstrip(": "))
        message = f"{self.name} raised {said}"
        status = getattr(raised, "status_code", None)
        # The exceptions of most providers' clients have the HTTP status.
        if isinstance(status, int):
            refusal = self.refusal(status, str(raised))
            return Failure(refusal.reason, message, status=status, fatal=refusal.fatal)
        is_permanent = isinstance(raised, PROGRAMMING_ERRORS)
        return Failure("bad_request" if is_permanent else "server_error", message)

    def _call(self, seconds: float, *given: Any, **options: Any) -> Any:
        """Call the function and return its result. Raise FunctionError if it raises an exception.

        Raises TimeoutError if it takes more than ``seconds``.
        """
        function = self._callable
        try:
            return within(seconds, lambda: function(*given, **options))
        except _OverdueError:
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        except Exception as error:
            raise FunctionError from error

    @made_once
    def _callable(self) -> Callable[..., Any]:
        """Return the function, or the instance of the class. Raise SettingsError if there is none.

        The module is imported on first use.
        """
        found = self.function
        if isinstance(found, str):
            try:
                found = find_function(found, self.root, f"{self.where}.function")
            except SettingsError as error:
                # If the import of the module fails, its message may contain the API key.
                raise SettingsError(self.mask(str(error))) from None
        if inspect.isclass(found):
            try:
                found = found()
            except Exception as error:
                raise self._unusable(
                    f"{self.name} cannot be made without arguments ({in_words(error)})"
                ) from error
        if not callable(found):
            raise self._unusable(f"{self.name} cannot be called")
        return found

    def _takes(self, option: str) -> bool:
        """Tell whether the function accepts this field of a request by its name."""
        if option in self._parameters:
            return True
        return "**" in self._parameters and option not in KEPT_BACK

    @made_once
    def _parameters(self) -> frozenset[str]:
        """Return the names of the function's parameters after the first.

        "**" is among them if the function accepts any other name.
        """
        _, *others = inspect.signature(self._callable).parameters.values()
        names = set()
        for parameter in others:
            if parameter.kind is parameter.VAR_KEYWORD:
                names.add("**")
            elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.add(parameter.name)
        return frozenset(names)

    def _unusable(self, fact: str) -> SettingsError:
        return SettingsError(
            f"{self.where}.function: {fact}; name a function, or a class with __call__"
        )


def is_function(model: object) -> bool:
    """Check whether a Python function answers the calls of a model."""
    return isinstance(getattr(model, "endpoint", None), FunctionEndpoint)


class _OverdueError(Exception):
    """The function has not returned in time."""


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of ``work``, awaited if it is awaitable.

    The work runs in a thread of its own. A thread cannot be ended, so one that takes longer is
    abandoned. Raises the exception of the work, or _OverdueError.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            result = work()
            if inspect.isawaitable(result):
                result = _await_result(result, seconds)
            done.put((result, None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise _OverdueError from None
    if error is None:
        return result
    # SystemExit and the like would end the whole command. Here they are failures of one call.
    raise error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def _await_result(awaitable: Awaitable[Any], seconds: float) -> Any:
    """Await the result in the event loop that all calls share. Raises _OverdueError if it takes too
    long.
    """

    async def result() -> Any:
        return await awaitable

    future = asyncio.run_coroutine_threadsafe(result(), event_loop())
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        if future.cancel():
            raise _OverdueError from None
        raise


def find_function(reference: str, root: Path, where: str) -> Any:
    """Return the object that ``reference`` ("module:name") names.

    The module is a file below ``root``, or else an installed module. Raises SettingsError if there
    is no such module or name, or if importing the module fails.
    """
    module_name, _, name = reference.partition(":")
    module_name = module_name.removesuffix(".py")
    path = (root / f"{module_name.replace('.', '/')}.py").resolve()
    if path.is_file():
        module = _import_own_module(path, path.read_bytes(), where)
    else:
        module = _import_installed_module(module_name, path, where)
    if not hasattr(module, name):
        raise SettingsError(
            f"{where}: {module_name} has no '{name}'; correct the name after the colon"
        )
    return getattr(module, name)


@cache
def _import_own_module(path: Path, source: bytes, where: str) -> ModuleType:
    """Import a file as a module, once for each version of its content.

    Raises SettingsError if that fails.
    """
    name = f"own_models_{digest(str(path), source.hex())}"
    spec = spec_from_file_location(name, path)
    assert spec
    module = module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        # The module may import files beside it. The folder comes last, so that they hide no
        # library.
        sys.path.append(folder)
        OWN_FOLDERS.add(folder)
    sys.modules[name] = module
    try:
        # The settings name the file, so running it is what the user wants.
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SettingsError(
            f"{where}: {path}: {type(error).__name__}: {error}; correct the file"
        ) from error
    return module


def _import_installed_module(name: str, path: Path, where: str) -> ModuleType:
    """Import an installed module. Raise SettingsError, which names ``path``, if that fails."""
    try:
        found = find_spec(name.partition(".")[0])
        if found and found.origin and str(Path(found.origin).parent) in OWN_FOLDERS:
            # The file belongs to another project of this process.
            raise ModuleNotFoundError(name=name)
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            fact = f"there is neither a file {path} nor an installed module '{name}'"
            raise SettingsError(
                f"{where}: {fact}; put the file there, or correct the name"
            ) from None
        raise SettingsError(f"{where}: {name}: {error}; install what it needs") from error
    except Exception as error:
        raise SettingsError(
            f"{where}: {name}: {type(error).__name__}: {error}; correct the module"
        ) from error


def _completion(reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    choice = {"index": 0, "finish_reason": reply.finish_reason, "message": message}
    return {"object": "chat.completion", "choices": [choice], **_usage_of_reply(reply)}


def _stream_reply(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the reply as a stream: one chunk with the whole text, and one with its end."""
    text_chunk = {
        "index": 0,
        "delta": {"role": "assistant", "content": reply.text},
        "finish_reason": None,
    }
    end = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    yield {"object": "chat.completion.chunk", "choices": [text_chunk]}
    yield {"object": "chat.completion.chunk", "choices": [end], **_usage_of_reply(reply)}


def _usage_of_reply(reply: Reply) -> dict[str, Any]:
    """Return the token counts as a field of OpenAI's JSON, or {} if the function has none."""
    if reply.input_tokens is None and reply.output_tokens is None:
        return {}
    counts = {
        "prompt_tokens": reply.input_tokens or 0,
        "completion_tokens": reply.output_tokens or 0,
    }
    return {"usage": {**counts, "total_tokens": sum(counts.values())}}


def _type_name(value: object) -> str:
    """Return the name of the value's type for a message; "nothing" for None."""
    return "nothing" if value is None else type(value).__name__
