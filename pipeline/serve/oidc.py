"""Sign people in by an OpenID Connect provider.

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

from pipeline.serve.user_headers import LONGEST_NAME, Named
from pipeline.settings.schema import OidcSettings

LOG = logging.getLogger("graphmill.serve")
SIGNED_BY = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signature algorithms with a public key. With a shared secret, or without a signature, anybody who
knows the client's secret could make tokens."""
PATIENCE = 10.0
"""The seconds in which the provider has to answer each request."""
LEEWAY = 60
"""The seconds by which the provider's clock may differ from that of this machine."""


class SignInError(Exception):
    """The provider signed nobody in who can be trusted; the log has the reason."""


@dataclass(frozen=True)
class Provider:
    """The provider of the settings. It is first asked when somebody signs in."""

    settings: OidcSettings

    async def leave(self, http: Request, flow: dict[str, Any]) -> str:
        """Return the address at which the provider signs a person in.

        ``flow`` is filled with the values that ``arrive`` needs; keep it in a signed cookie. Raises
        SignInError.
        """
        http.scope["session"] = flow
        try:
            await self._check_metadata()
            answer = await self._client.authorize_redirect(http, self.settings.redirect_address)
        except Exception as error:  # noqa: BLE001 - a library, a network and a server may fail
            raise self._failed(error) from None
        return answer.headers["location"]

    async def arrive(self, http: Request, flow: dict[str, Any]) -> Named:
        """Return the user whom the provider has sent back with this request, and the user's
        groups. Raises SignInError."""
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
            # These claims are of the ID token, which has been checked.
            claims: Mapping[str, Any] = token["userinfo"]
            if settings.groups_claim not in claims or settings.user_claim not in claims:
                claims = {**await self._more_claims(token, claims["sub"]), **claims}
        except Exception as error:  # noqa: BLE001 - a library, a network and a server may fail
            raise self._failed(error) from None
        return self._read_claims(claims)

    def _read_claims(self, claims: Mapping[str, Any]) -> Named:
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
        """Return the claims about the same person at the provider's userinfo address, if it has
        one."""
        metadata = await self._client.load_server_metadata()
        if "userinfo_endpoint" not in metadata:
            return {}
        claims = await self._client.userinfo(token=token)
        if claims.get("sub") != subject:
            raise ValueError("the userinfo is of another person than the ID token")
        return claims

    async def _check_metadata(self) -> None:
        """Check that the provider is that of the settings, and remove algorithms without a public
        key. Raises ValueError."""
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
        """Log the reason, and return the error to raise.

        The page does not show the reason, which may be text that anybody put into an address.
        """
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
            server_metadata_url=settings.metadata_address,
            client_id=settings.client_id,
            client_secret=settings.client_secret.get_secret_value() or None,
            client_kwargs={
                "scope": " ".join(dict.fromkeys(("openid", *settings.scopes))),
                "code_challenge_method": "S256",
                "timeout": PATIENCE,
            },
        )
