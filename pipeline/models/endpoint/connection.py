"""Give an endpoint's requests their headers, query and certificates."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from pipeline.errors import SettingsError, in_words

SHORTEST_SECRET = 4
"""The least characters of a value that messages mask. To mask shorter ones would tear up messages
and hide little."""


@dataclass(frozen=True)
class Connection:
    """Hold what requests carry beside the key.

    ``headers`` and ``query`` are sent with every request; a header whose value is empty is not sent
    at all.

    ``ca_bundle``: a file in PEM with the only certificate authorities that are trusted.
    ``client_cert`` and ``client_key``: files in PEM of the certificate that is shown to the server.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str = ""
    client_cert: str = ""
    client_key: str = ""

    @property
    def secrets(self) -> list[str]:
        """Return the texts that no message may show: the values, and the parts of values such as
        "Bearer KEY"."""
        values = [*self.headers.values(), *self.query.values()]
        parts = [part for value in values for part in value.split()]
        return [secret for secret in (*values, *parts) if len(secret) >= SHORTEST_SECRET]

    def client_arguments(self, where: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of an OpenAI client; ``query`` is that of the address itself.

        Raises SettingsError for a file of certificates that cannot be read.
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
            options["verify"] = self._certificates(where)
        if left_out:
            # The openai client insists on its own Authorization: only its HTTP client can leave it
            # out.
            options["event_hooks"] = {"request": [partial(_leave_out, left_out)]}
        if options:
            arguments["http_client"] = DefaultHttpxClient(**options)
        return arguments

    def _certificates(self, where: str) -> ssl.SSLContext:
        setting, path = "ca_bundle", self.ca_bundle
        try:
            if self.ca_bundle:
                context = ssl.create_default_context(
                    cafile=self.ca_bundle
                )  # trusts nothing but this file
            else:
                context = (
                    http_library().create_ssl_context()
                )  # SSL_CERT_FILE, else the public authorities
            setting, path = "client_cert", self.client_cert
            if self.client_cert:
                # Without a password of its own, OpenSSL would ask for one at the terminal and wait.
                context.load_cert_chain(
                    self.client_cert, self.client_key or None, password=lambda: ""
                )
        except (OSError, ValueError) as error:
            fact = (
                "not a certificate in PEM"
                if isinstance(error, ssl.SSLError | ValueError)
                else in_words(error)
            )
            raise SettingsError(
                f"{where}.{setting}: {path}: {fact}; name a file in PEM that this user can read"
            ) from None
        return context


def _leave_out(names: Sequence[str], request: Any) -> None:
    """Remove headers from a request of the HTTP library."""
    for name in names:
        request.headers.pop(name, None)


def http_library() -> Any:
    """Return the HTTP library of the openai client: httpx, or httpx2 from version 3 on."""
    from openai import DefaultHttpxClient

    names = [base.__module__.partition(".")[0] for base in DefaultHttpxClient.__mro__]
    return import_module(next(name for name in names if name.startswith("httpx")))
