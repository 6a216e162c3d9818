"""An object store (S3, Google Cloud Storage, Azure): a few kinds of requests, many at a time, with
messages for what goes wrong.

The address of a store is a URL, and its keys are in the environment; keys are never in a message. A
server's answer may quote a request with its key, so a message only has the name of the fault.
"""

import mmap
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from pipeline.errors import ObjectStoreAuthError, ObjectStoreError, SettingsError, install_extra
from pipeline.settings.addresses import kind_of_store

AT_ONCE = 16
LARGE = 2**25
"""Bytes from which on a file is uploaded alone: a conditional upload is one request with the whole
file."""
FETCHED = 2**16
"""Bytes of an object that are written to its file together, where many are fetched at once. Many
that share a slow line all have a part soon, which tells a slow bucket from a silent one."""
CONFLICT_SECONDS = 10.0
"""Seconds to retry an upload that the server refuses because another client creates the same
object."""
DELETED_AT_ONCE = {"s3": 250}
"""Objects deleted per request, by the kind of store. Other kinds need one request per object."""
DELETED_TOGETHER = 10
"""Objects deleted at the same time, with one request each."""
RETRY_SECONDS, PAUSE_SECONDS, ANSWER_SECONDS = 22, 1, 6
"""Seconds for which a request is retried, the longest pause between attempts, and the timeout of an
attempt that changes an object by its name."""
PART_SECONDS = 30.0
"""Seconds to wait for an answer to begin, and then for each further part of it."""
LONGEST_READ = timedelta(days=1)
"""The longest time for a whole answer. It is long, since many large objects may share a slow line;
PART_SECONDS ends one that comes no further. Without it, obstore ends each answer after 30 s."""
LONGEST_CHANGE = RETRY_SECONDS + PAUSE_SECONDS + ANSWER_SECONDS
"""Seconds after which a write of a JSON object, or a deletion, can no longer take effect."""
RETRIES: Any = {
    "max_retries": 1000,
    "backoff": {"max_backoff": timedelta(seconds=PAUSE_SECONDS)},
    "retry_timeout": timedelta(seconds=RETRY_SECONDS),
}
KEYS = {
    "s3": (
        "AWS_",
        (
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL where not"
            " Amazon's"
        ),
    ),
    "gs": ("GOOGLE_", "GOOGLE_SERVICE_ACCOUNT, the file of its key"),
    "az": ("AZURE_", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
}
"""The prefix of its environment variables and the usual variables, for each kind of store."""
READ = frozenset(
    "ACCESS_KEY_ID SECRET_ACCESS_KEY SESSION_TOKEN REGION DEFAULT_REGION ENDPOINT_URL ENDPOINT"
    " SERVER_SIDE_ENCRYPTION SSE_KMS_KEY_ID VIRTUAL_HOSTED_STYLE_REQUEST SERVICE_ACCOUNT"
    " SERVICE_ACCOUNT_PATH SERVICE_ACCOUNT_KEY APPLICATION_CREDENTIALS STORAGE_ACCOUNT_NAME"
    " STORAGE_ACCOUNT_KEY STORAGE_SAS_TOKEN STORAGE_ENDPOINT CLIENT_ID CLIENT_SECRET TENANT_ID"
    " BASE_URL".split()
)
"""Suffixes of variables that are read from a .env file; obstore does not know every variable."""
REFUSED_KEYS = frozenset({
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "InvalidToken",
    "AuthFailure",
    "AuthenticationFailed", "AuthorizationFailure", "InvalidSecurity",
})  # fmt: skip
NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
CODE, STATUS = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"status code: (\d{3})")
PATH = re.compile(r'Path "(.*?)"(?: contained|:)', re.DOTALL)
HOST = re.compile(r"https?://(?:[^/@\s]*@)?([^/\s]+)")
Item = TypeVar("Item")
Made = TypeVar("Made")
Check = Callable[[], object]
"""A function that raises an error if an operation must not go on."""


def always() -> None:
    pass


@dataclass(frozen=True)
class StoredObject:
    name: str
    bytes: int
    e_tag: str
    changed: float


@dataclass(frozen=True)
class Objects:
    """The objects whose names begin with a prefix, which is part of the address.

    ``environment`` has the keys. ``setting`` is the one with the address, and ``rights`` are those
    that a key must have; both are for messages. All requests raise ObjectStoreError.
    """

    address: str
    environment: Mapping[str, str]
    setting: str = "snapshots"
    rights: str = "list, read, write and delete"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an object store is opened by each process, with keys of its own environment"
        )

    def __repr__(self) -> str:
        return f"Objects({self.address!r})"

    def read(self, name: str) -> tuple[bytes, str]:
        """Return the content and the e-tag of an object. Raises FileNotFoundError."""
        with self._in_words():
            found = self._store.get(name)
            return bytes(found.bytes()), found.meta["e_tag"] or ""

    def fetch(self, name: str, path: Path) -> None:
        """Write the content of an object to a file. Raises FileNotFoundError."""
        with self._in_words(), path.open("wb") as file:
            for part in self._store.get(name).stream():
                file.write(part)

    async def fetch_async(self, name: str, path: Path) -> None:
        """Write the content of an object to a file in parts of about FETCHED bytes. Raises
        FileNotFoundError."""
        with self._in_words(), path.open("wb") as file:
            found = await self._store.get_async(name)
            async for part in found.stream(min_chunk_size=FETCHED):
                file.write(part)

    def read_end(self, name: str, size: int, most: int) -> bytes:
        """Return at most the last ``most`` bytes of an object of ``size`` bytes. Raises
        FileNotFoundError."""
        with self._in_words():
            return bytes(self._store.get_range(name, start=max(size - most, 0), end=size))

    def create(self, name: str, content: bytes) -> str | None:
        """Create an object and return its e-tag; return None if there is one of this name
        already."""
        return self._put(name, content, "create", soon=True)

    def replace(self, name: str, content: bytes, e_tag: str) -> str | None:
        """Replace an object that has this e-tag, and return its new one; return None if it has
        another one or is missing."""
        return self._put(name, content, {"e_tag": e_tag}, soon=True)

    def overwrite(self, name: str, content: bytes) -> str:
        return self._put(name, content, "overwrite") or ""

    def keeps_versions(self, name: str) -> bool:
        """Return whether the bucket is versioned. The object of this name is overwritten to find
        out."""
        with self._in_words():
            version = self._store.put(name, b"", use_multipart=False)["version"]
        return version not in (None, "null")

    def upload(self, files: Mapping[str, Path], again: bool = False, may: Check = always) -> None:
        """Upload files that are named by their content.

        An object that is there is left alone, unless ``again`` is true. ``may`` is called before
        each upload and raises an error to stop.
        """
        small: list[str] = []
        large: list[str] = []
        for name, path in files.items():
            if path.stat().st_size < LARGE:
                small.append(name)
            else:
                large.append(name)

        def upload_one(name: str) -> None:
            self._upload(name, files[name], again, may)

        self.each(upload_one, small)
        for name in large:
            upload_one(name)

    def _upload(self, name: str, path: Path, again: bool, may: Check) -> None:
        may()
        with path.open("rb") as file:
            if not path.stat().st_size:
                self._put(name, b"", "overwrite")
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if again:
                    self._put(name, content, "overwrite")
                else:
                    self._create_surely(name, content)

    def _create_surely(self, name: str, content: Any) -> None:
        """Create an object, and retry while the server refuses although the object is not there.

        A server may also say that an object exists while another client is creating it, and that
        request may yet fail.
        """
        until = time.monotonic() + CONFLICT_SECONDS
        while self._put(name, content, "create") is None and not self._is_there(name):
            if time.monotonic() > until:
                raise ObjectStoreError(
                    f"{self.address}: {name} was neither written nor found; run the same command"
                    " again: it goes on from what is done"
                )
            time.sleep(CONFLICT_SECONDS / 100)

    def _is_there(self, name: str) -> bool:
        try:
            with self._in_words():
                self._store.head(name)
        except FileNotFoundError:
            return False
        return True

    def _put(self, name: str, content: Any, mode: Any, soon: bool = False) -> str | None:
        faults = self._faults
        store = self._prompt_store if soon else self._store
        try:
            with self._in_words(faults.AlreadyExistsError, faults.PreconditionError):
                written = store.put(name, content, mode=mode, use_multipart=False)
                return written["e_tag"] or ""
        except faults.AlreadyExistsError:
            return None
        except faults.PreconditionError as error:
            if _code(error) in NO_BUCKET:
                self._raise(error)
            return None

    def listed(self, below: str = "") -> list[StoredObject]:
        """Return all objects whose names begin so, sorted by name; one request lists a thousand."""
        found: list[StoredObject] = []
        with self._in_words():
            for page in self._store.list(below or None):
                for each in page:
                    changed = each["last_modified"].timestamp()
                    e_tag = each["e_tag"] or ""
                    found.append(StoredObject(each["path"], each["size"], e_tag, changed))
        return sorted(found, key=lambda one: one.name)

    def top(self) -> list[str]:
        """Return the names without a "/", sorted."""
        with self._in_words():
            return sorted(each["path"] for each in self._store.list_with_delimiter("")["objects"])

    def delete(self, names: Sequence[str], may: Check = always) -> None:
        """Delete the objects that are there. ``may`` is called before each request and raises an
        error to stop."""
        at_once = DELETED_AT_ONCE.get(kind_of_store(self.address), DELETED_TOGETHER)
        for start in range(0, len(names), at_once):
            some = list(names[start : start + at_once])
            may()
            with self._in_words():
                try:
                    self._prompt_store.delete(some)
                except FileNotFoundError as error:
                    # Some stores fail if one of the objects is gone: delete them one by one.
                    if _code(error) in NO_BUCKET:
                        raise
                    if len(some) > 1:
                        for name in some:
                            self.delete([name], may)

    def each(self, do: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """Return what ``do`` returns for each item, in order; up to AT_ONCE calls run at the same
        time."""
        waiting = list(items)
        if len(waiting) <= 1:
            return [do(item) for item in waiting]
        with ThreadPoolExecutor(min(AT_ONCE, len(waiting))) as threads:
            return list(threads.map(do, waiting))

    @property
    def _faults(self) -> Any:
        """The exceptions of obstore. Every request needs them first, so a missing obstore is
        reported here."""
        try:
            from obstore import exceptions
        except ImportError as error:
            raise SettingsError(
                f"snapshots: {self.address} needs obstore; {install_extra('objects')}"
            ) from error
        return exceptions

    @cached_property
    def _store(self) -> Any:
        part = timedelta(seconds=PART_SECONDS)
        return self._open_store(timeout=LONGEST_READ, read_timeout=part)

    @cached_property
    def _prompt_store(self) -> Any:
        """The store with a short timeout, for changes that must not take effect late."""
        return self._open_store(timeout=timedelta(seconds=ANSWER_SECONDS))

    def _open_store(self, **client: Any) -> Any:
        from obstore.store import from_url

        keys = keys_of(self.address, self.environment).items()
        # obstore reads the variables of the process itself.
        named: Any = {name.lower(): value for name, value in keys if name not in os.environ}
        options: Any = {"allow_http": urlsplit(self._endpoint).scheme == "http", **client}
        try:
            return from_url(
                self.address, config=named, client_options=options, retry_config=RETRIES
            )
        except (self._faults.BaseError, ValueError):
            raise self._without_key("or none that can be read") from None

    @property
    def _endpoint(self) -> str:
        """The URL of a server other than the provider's own, or ""."""
        names = (
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT",
            "GOOGLE_BASE_URL",
            "AZURE_STORAGE_ENDPOINT",
            "AZURE_ENDPOINT",
        )
        for name in names:
            if self.environment.get(name):
                return self.environment[name]
        return ""

    @contextmanager
    def _in_words(self, *expected: type[Exception]) -> Iterator[None]:
        """Turn the errors of obstore into ours with a message for people; let ``expected`` ones
        pass."""
        faults = self._faults
        try:
            yield
        except expected:
            raise
        except FileNotFoundError as error:
            if _code(error) in NO_BUCKET:
                self._raise(error)
            raise FileNotFoundError(f"{self.address}: not there") from None
        except (faults.BaseError, ValueError) as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        said, code = str(error), _code(error)
        usual = KEYS[kind_of_store(self.address)][1]
        # The address at which a cloud machine asks for the credentials of its role.
        asked_for_role = "169.254" in said
        if code in NO_BUCKET:
            raise ObjectStoreAuthError(
                f"{self.address}: there is no such bucket; make it, or correct"
                f" '{self.setting}' in settings.yaml"
            ) from None
        is_denied = _status(error) in ("401", "403") and not asked_for_role
        if code in REFUSED_KEYS or is_denied:
            refused = f"it refused the key ({code or _status(error)})"
            raise ObjectStoreAuthError(
                f"{self.address}: {refused}; set {usual}, of a key that may {self.rights} there"
            ) from None
        if asked_for_role or "token" in said.lower():
            raise self._without_key("nor has this machine a role") from None
        if "body error" in said:
            raise ObjectStoreError(
                f"{self.address}: an answer of the server broke off; run the same command again:"
                " it goes on from what is done"
            ) from None
        if "error sending request" in said or "timed out" in said:
            host = HOST.search(said)
            server = host[1] if host else "the server"
            raise ObjectStoreError(
                f"{self.address}: no answer from {server}; see that it is up and the endpoint is"
                " right, then run the same command again: it goes on from what is done"
            ) from None
        if "region" in said.lower() and _status(error) in ("", "301", "400"):
            raise ObjectStoreAuthError(
                f"{self.address}: the bucket is in another region; set AWS_REGION"
            ) from None
        if isinstance(error, self._faults.InvalidPathError):
            found = PATH.search(said)
            # As a text of Python, since the name may have an end of line in it.
            name = repr(found[1]) if found else "so"
            raise ObjectStoreError(
                f"{self.address}: an object is named {name}, and no list with it can be read; take"
                " '//', '/./', '/../' and control characters out of its name"
            ) from None
        fault = " ".join(filter(None, [_status(error), code])) or type(error).__name__
        raise ObjectStoreError(
            f"{self.address}: the server failed ({fault}); run the same command again: it goes on"
            " from what is done"
        ) from None

    def _without_key(self, nor: str) -> ObjectStoreAuthError:
        usual = KEYS[kind_of_store(self.address)][1]
        return ObjectStoreAuthError(
            f"{self.address}: no key was found, {nor}; set {usual}, or put them into .env"
        )


def keys_of(address: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that open the object store."""
    prefix = KEYS[kind_of_store(address)][0]
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in READ
    }


def _code(error: Exception) -> str:
    found = CODE.search(str(error))
    return found[1] if found else ""


def _status(error: Exception) -> str:
    found = STATUS.search(str(error))
    return found[1] if found else ""
