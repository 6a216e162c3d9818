"""Headers, query parameters and certificates for the requests to an endpoint."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from pipeline.errors import SettingsError, in_words

SHORTEST_SECRET = 4
"""Minimum length of a value that messages mask. Masking shorter ones would make messages unreadable
and hide little."""


@dataclass(frozen=True)
class Connection:
    """Settings of requests besides the API key.

    ``headers`` and ``query`` are sent with every request. A header with an empty value is not sent
    at all.

    ``ca_bundle``: a PEM file with the only trusted certificate authorities. ``client_cert`` and
    ``client_key``: PEM files of the certificate that is presented to the server.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str = ""
    client_cert: str = ""
    client_key: str = ""

    @property
    def secrets(self) -> list[str]:
        """Texts that no message may contain: the values, and the words in values such as "Bearer
        KEY"."""
        values = [*self.headers.values(), *self.query.values()]
        words: list[str] = []
        for value in values:
            words += value.split()
        return [secret for secret in [*values, *words] if len(secret) >= SHORTEST_SECRET]

    def client_arguments(self, where: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of an OpenAI client. ``query`` is the query of the address itself.

        Raises SettingsError for a certificate file that cannot be read.
        """
        from openai import DefaultHttpxClient

        headers = {name: value for name, value in self.headers.items() if value}
        arguments: dict[str, Any] = {
            "default_headers": headers,
            "default_query": {**query, **self.query},
        }
        left_out = [name for name, value in self.headers.items() if not value]
        options: dict[str, Any] = {}
        if self.ca_bundle or self.client_cert:
            options["verify"] = self._create_ssl_context(where)
        if left_out:
            # The openai client always sets Authorization, so only a hook of its HTTP client can
            # remove it.
            options["event_hooks"] = {"request": [partial(_remove_headers, left_out)]}
        if options:
            arguments["http_client"] = DefaultHttpxClient(**options)
        return arguments

    def _create_ssl_context(self, where: str) -> ssl.SSLContext:
        """Load the certificates. Raise SettingsError for a file that cannot be read."""
        setting, path = "ca_bundle", self.ca_bundle
        try:
            if self.ca_bundle:
                # This context trusts only the authorities in the file.
                context = ssl.create_default_context(cafile=self.ca_bundle)
            else:
                # This context trusts those in SSL_CERT_FILE, or the public authorities.
                context = http_library().create_ssl_context()
            setting, path = "client_cert", self.client_cert
            if self.client_cert:
                # Without a password here, OpenSSL would ask for one at the terminal and wait.
                context.load_cert_chain(
                    self.client_cert, self.client_key or None, password=lambda: ""
                )
        except (OSError, ValueError) as error:
            fact = in_words(error)
            if isinstance(error, ssl.SSLError | ValueError):
                fact = "not a certificate in PEM"
            raise SettingsError(
                f"{where}.{setting}: {path}: {fact}; name a file in PEM that this user can read"
            ) from None
        return context


def _remove_headers(names: Sequence[str], request: Any) -> None:
    """Remove headers from a request of the HTTP library."""
    for name in names:
        request.headers.pop(name, None)


def http_library() -> Any:
    """Return the HTTP library of the openai client: httpx, or httpx2 from version 3 on."""
    from openai import DefaultHttpxClient

    names = [base.__module__.partition(".")[0] for base in DefaultHttpxClient.__mro__]
    return import_module(next(name for name in names if name.startswith("httpx")))
