"""Examines the OpenID Connect provider by which people sign in on the page."""

from collections.abc import Iterator

from pipeline.doctor.finding import Finding
from pipeline.models.endpoint.connection import http_library
from pipeline.settings.schema import OidcSettings

SUBJECT = "serve.users.oidc"
PATIENCE = 10.0
"""The seconds in which the provider has to answer."""


def examine_sign_in(oidc: OidcSettings) -> Iterator[Finding]:
    """Yield a finding on whether the provider answers and is that of the settings.

    There is none without an issuer. Nobody is signed in, and no secret is sent.
    """
    if not oidc.issuer:
        return
    http = http_library()
    address = oidc.metadata_address
    try:
        answer = http.get(address, timeout=PATIENCE)
        answer.raise_for_status()
        issuer = answer.json()["issuer"]
    except (http.HTTPError, ValueError, KeyError, TypeError) as error:
        fact = f"{address} gives no description of a provider: {error or type(error).__name__}"
        action = f"start the provider, or correct {SUBJECT}.issuer; until then nobody signs in"
        yield Finding("settings", SUBJECT, "failed", fact, action)
        return
    if issuer != oidc.issuer:
        fact = f"the provider calls itself {issuer!r}, and issuer is {oidc.issuer!r}"
        yield Finding("settings", SUBJECT, "failed", fact, "set issuer to the provider's own name")
        return
    fact = f"{oidc.issuer} answers; register {oidc.redirect_address} there"
    yield Finding("settings", SUBJECT, "ok", fact)
