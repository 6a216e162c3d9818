"""Use a Python function or class as a chat or embedding model, synchronous or asynchronous."""

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
from pipeline.models.base import Reply
from pipeline.models.conversations import made_once
from pipeline.models.endpoint.client import Failure
from pipeline.models.endpoint.in_process import Body, InProcessEndpoint
from pipeline.text.ids import digest

PROGRAMMING_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError,
    TypeError, ValueError,
)  # fmt: skip
"""Exceptions after which a second call would end in the same way. Others, such as those of a
network, may pass."""


KEPT_BACK = frozenset({"messages", "model", "input", "stream", "stream_options", "encoding_format"})
"""Parts of a request that are not options: a function gets them only if it names them."""


OWN_FOLDERS: set[str] = set()
"""Folders that were added to the path of imports for modules of projects."""


class FunctionError(Exception):
    """Carry what a function raised (``__cause__``), or say why its result cannot be used."""


@dataclass(frozen=True)
class FunctionEndpoint(InProcessEndpoint):
    """Answer requests by a function.

    ``function``: "module:name", or the function or class itself. ``name``: the function's name in
    messages. ``root``: the project's folder. ``wanted``: options of the settings that the function
    must take.

    A module is a file in ``root``, the project's folder, or else an installed module. A class is
    made once, without arguments, and its instance is called.
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
        """Find the function, and check that it takes the options that are set; nothing is called.

        Raises SettingsError.
        """
        _ = self._called
        missing = [name for name in self.wanted if not self._takes(name)]
        if missing:
            fact = f"{missing[0]} is set, and {self.name} has no such parameter"
            raise SettingsError(
                f"{self.where}: {fact}; add it to the function, or remove the setting"
            )

    def chat(self, body: Body, seconds: float) -> Body | Iterator[Body]:
        """Call the function with the messages and with those options that it takes."""
        options = {name: value for name, value in body.items() if self._takes(name)}
        answer = self._call(seconds, body["messages"], **options)
        reply = Reply(answer) if isinstance(answer, str) else answer
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise FunctionError(f"gave {_kind(answer)} instead of a text or a Reply")
        return _chunks(reply) if body.get("stream") else _completion(reply)

    def embed(self, body: Body, seconds: float) -> Body:
        """Call the function with a list of texts."""
        texts = body["input"]
        answer = self._call(seconds, texts)
        try:
            vectors = np.asarray(() if answer is None else answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise FunctionError(
                f"gave {_kind(answer)} instead of a vector of numbers for each text"
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts):
            shape = (
                "nothing" if answer is None else "x".join(map(str, vectors.shape)) or "one number"
            )
            raise FunctionError(
                f"gave {shape} for {len(texts)} texts instead of a vector of numbers for each"
            )
        data = [{"object": "embedding", "index": row, "embedding": list(map(float, vector))}
                for row, vector in enumerate(vectors)]  # fmt: skip
        return {"object": "list", "model": self.model, "data": data}

    def own_failure(self, error: BaseException) -> Failure | None:
        if not isinstance(error, FunctionError):
            return None
        raised = error.__cause__
        if raised is None:
            return Failure("bad_request", f"{self.name} {self._safe(str(error))}")
        if isinstance(raised, GraphmillError):  # the author says that no call can do better
            raised.args = (self.masked(str(raised)),)
            return Failure("bad_request", f"{self.name}: {raised}", fatal=raised)
        said = self._safe(f"{type(raised).__name__}: {raised}".rstrip(": "))
        message = f"{self.name} raised {said}"
        status = getattr(raised, "status_code", None)
        if isinstance(status, int):  # the clients of most providers have it
            refusal = self.refusal(status, str(raised))
            return Failure(refusal.reason, message, status=status, fatal=refusal.fatal)
        return Failure(
            "bad_request" if isinstance(raised, PROGRAMMING_ERRORS) else "server_error", message
        )

    def _call(self, seconds: float, *given: Any, **options: Any) -> Any:
        """Return what the function returns within ``seconds``. Raises FunctionError, or
        TimeoutError."""
        called = self._called
        try:
            return within(seconds, lambda: called(*given, **options))
        except _OverdueError:
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        except Exception as error:
            raise FunctionError from error

    @made_once
    def _called(self) -> Callable[..., Any]:
        found = self.function
        if isinstance(found, str):
            try:
                found = find_function(found, self.root, f"{self.where}.function")
            except SettingsError as error:
                # The message of a module that fails while it is imported may repeat the key that it
                # was given.
                raise SettingsError(self.masked(str(error))) from None
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
        """Tell whether the function takes this part of a request by its name."""
        if option in self._parameters:
            return True
        return "**" in self._parameters and option not in KEPT_BACK

    @made_once
    def _parameters(self) -> frozenset[str]:
        """Return the names of the function's parameters after the first, with "**" if it takes any
        other."""
        _, *others = inspect.signature(self._called).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in others)
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return frozenset(one.name for one in others if one.kind in by_name) | (
            {"**"} if takes_any else set()
        )

    def _unusable(self, fact: str) -> SettingsError:
        return SettingsError(
            f"{self.where}.function: {fact}; name a function, or a class with __call__"
        )


def is_function(model: object) -> bool:
    """Check whether a Python function answers the calls of a model."""
    return isinstance(getattr(model, "endpoint", None), FunctionEndpoint)


class _OverdueError(Exception):
    """Say that the function has not returned in time."""


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns, awaited if it is awaitable; raise what it raises, or
    _OverdueError.

    The work runs in a thread of its own. Nothing can end a thread: one that takes longer is left
    behind.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            result = work()
            done.put((_awaited(result, seconds) if inspect.isawaitable(result) else result, None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise _OverdueError from None
    if error is None:
        return result
    # SystemExit and the like would end the whole command; here they are faults of one call.
    raise error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def _awaited(awaitable: Awaitable[Any], seconds: float) -> Any:
    """Await in the event loop that all calls share, because an asynchronous client cannot be used
    in several loops."""

    async def result() -> Any:
        return await awaitable

    future = asyncio.run_coroutine_threadsafe(result(), _event_loop())
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        if future.cancel():
            raise _OverdueError from None
        raise


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def find_function(reference: str, root: Path, where: str) -> Any:
    """Return what ``reference`` ("module:name") names: in a file below ``root``, else in an
    installed module.

    Raises SettingsError where there is no such module or name, or where the module cannot be run.
    """
    module_name, _, name = reference.partition(":")
    module_name = module_name.removesuffix(".py")
    path = (root / f"{module_name.replace('.', '/')}.py").resolve()
    own = path.is_file()
    module = (
        _own_module(path, path.read_bytes(), where) if own else _installed(module_name, path, where)
    )
    if not hasattr(module, name):
        raise SettingsError(
            f"{where}: {module_name} has no '{name}'; correct the name after the colon"
        )
    return getattr(module, name)


@cache
def _own_module(path: Path, source: bytes, where: str) -> ModuleType:
    """Run a file as a module, once for each content that it has had."""
    name = f"own_models_{digest(str(path), source.hex())}"
    spec = spec_from_file_location(name, path)
    assert spec
    module = module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(
            folder
        )  # so that it can import its neighbours; last, so that these hide no library
        OWN_FOLDERS.add(folder)
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - settings name the file to run
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SettingsError(
            f"{where}: {path}: {type(error).__name__}: {error}; correct the file"
        ) from error
    return module


def _installed(name: str, path: Path, where: str) -> ModuleType:
    try:
        found = find_spec(name.partition(".")[0])
        if found and found.origin and str(Path(found.origin).parent) in OWN_FOLDERS:
            raise ModuleNotFoundError(name=name)  # it belongs to another project of this process
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
    return {"object": "chat.completion", "choices": [choice], **_usage(reply)}


def _chunks(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the reply as a stream of one piece."""
    piece = {
        "index": 0,
        "delta": {"role": "assistant", "content": reply.text},
        "finish_reason": None,
    }
    end = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    yield {"object": "chat.completion.chunk", "choices": [piece]}
    yield {"object": "chat.completion.chunk", "choices": [end], **_usage(reply)}


def _usage(reply: Reply) -> dict[str, Any]:
    """Return the token counts as a part of OpenAI's JSON; an empty part if the function does not
    know them."""
    if reply.input_tokens is None and reply.output_tokens is None:
        return {}
    counts = {
        "prompt_tokens": reply.input_tokens or 0,
        "completion_tokens": reply.output_tokens or 0,
    }
    return {"usage": {**counts, "total_tokens": sum(counts.values())}}


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
