"""Sign people in by an OpenID Connect provider: where to send a browser, and whom it brings back.

Authlib makes and checks what protects this: state and nonce bind the answer to this browser and
this attempt, PKCE binds the code to this server, and the ID token's signature, issuer, audience and
times are checked.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from authlib.integrations.starlette_client import OAuth, StarletteOAuth2App
from starlette.requests import Request

from pipeline.serve.named import LONGEST_NAME, Named
from pipeline.settings.schema import OidcSettings

LOG = logging.getLogger("graphmill.serve")
SIGNED_BY = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Algorithms with a public key. With one of a shared secret, or none, whoever knows the client
could make tokens."""
PATIENCE = 10.0
"""Seconds that the provider gets for each answer."""
LEEWAY = 60
"""Seconds by which the provider's clock and ours may differ."""
CALLBACK = "oidc/callback"


class SignInError(Exception):
    """The provider did not bring anybody back whom we can rely on; the log has the reason."""


@dataclass(frozen=True)
class Provider:
    """Hold the provider of the settings; it is first asked when somebody signs in."""

    settings: OidcSettings

    @property
    def redirect_address(self) -> str:
        return f"{self.settings.public_url.rstrip('/')}/{CALLBACK}"

    async def leave(self, http: Request, flow: dict[str, Any]) -> str:
        """Return the address at which the provider signs a person in.

        ``flow`` gets what is needed when they come back, and belongs into a signed cookie. Raises
        SignInError.
        """
        http.scope["session"] = flow
        try:
            await self._check_metadata()
            answer = await self._client.authorize_redirect(http, self.redirect_address)
        except Exception as error:  # noqa: BLE001 - of a library, a network and another server
            raise self._failed(error) from None
        return answer.headers["location"]

    async def arrive(self, http: Request, flow: dict[str, Any]) -> Named:
        """Return who has come back with this request, and their groups. Raises SignInError."""
        http.scope["session"] = flow
        settings = self.settings
        expected = {
            "iss": {"essential": True, "value": settings.issuer},
            "aud": {"essential": True, "value": settings.client_id},
            "exp": {"essential": True},
        }
        try:
            await self._check_metadata()
            token = await self._client.authorize_access_token(
                http, claims_options=expected, leeway=LEEWAY
            )
            claims: Mapping[str, Any] = token["userinfo"]  # of the ID token, which has been checked
            if settings.groups_claim not in claims or settings.user_claim not in claims:
                claims = {**await self._more_claims(token, claims["sub"]), **claims}
        except Exception as error:  # noqa: BLE001 - of a library, a network and another server
            raise self._failed(error) from None
        return self._named(claims)

    def _named(self, claims: Mapping[str, Any]) -> Named:
        user = str(claims.get(self.settings.user_claim) or claims["sub"]).strip()
        if not user or len(user) > LONGEST_NAME or not user.isprintable():
            raise self._failed(ValueError(f"the claim '{self.settings.user_claim}' is no name"))
        groups = claims.get(self.settings.groups_claim) or ()
        named = [groups] if isinstance(groups, str) else groups
        if not isinstance(named, list | tuple):
            raise self._failed(
                ValueError(f"the claim '{self.settings.groups_claim}' is no list of groups")
            )
        return Named(user, tuple(str(group) for group in named))

    async def _more_claims(self, token: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
        """Return the claims about the same person that the provider has at its userinfo address, if
        it has one."""
        metadata = await self._client.load_server_metadata()
        if "userinfo_endpoint" not in metadata:
            return {}
        told = await self._client.userinfo(token=token)
        if told.get("sub") != subject:
            raise ValueError("the userinfo is of another person than the ID token")
        return told

    async def _check_metadata(self) -> None:
        """Look that the provider is the one of the settings, and leave out algorithms that protect
        nothing."""
        metadata = await self._client.load_server_metadata()
        if metadata.get("issuer") != self.settings.issuer:
            raise ValueError(
                f"the provider calls itself {metadata.get('issuer')!r}; set issuer to that, if it"
                " is right"
            )
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [
            name for name in offered if name in SIGNED_BY
        ]

    def _failed(self, error: Exception) -> SignInError:
        """Say in the log why; a page does not, for the reason may be anybody's text in an
        address."""
        reason = str(error) or type(error).__name__
        LOG.warning(
            "serve.users.oidc: signing in by %s failed: %.300r", self.settings.issuer, reason
        )
        return SignInError()

    @cached_property
    def _client(self) -> StarletteOAuth2App:
        settings = self.settings
        return OAuth().register(
            "provider",
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_id=settings.client_id,
            client_secret=settings.client_secret.get_secret_value() or None,
            client_kwargs={
                "scope": " ".join(dict.fromkeys(("openid", *settings.scopes))),
                "code_challenge_method": "S256",
                "timeout": PATIENCE,
            },
        )
