"""Deployments of Azure OpenAI, by Azure's own paths and versions, with a key or with Microsoft
Entra ID."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from pipeline.errors import AuthError, NoSuchModelError, SettingsError, in_words, install_extra
from pipeline.models.endpoint.client import Endpoint, Failure

if TYPE_CHECKING:
    from openai import OpenAI


API_VERSION = "2024-10-21"
"""The newest version of the API for calls that is not a preview."""
SCOPE = "https://cognitiveservices.azure.com/.default"
ROLE = "Cognitive Services OpenAI User"


@dataclass(frozen=True)
class AzureEndpoint(Endpoint):
    """Endpoint of a deployment.

    ``base_url``: the address of the resource, such as https://NAME.openai.azure.com.
    ``deployment``: by default the name of the model. ``entra_id``: sign in by
    DefaultAzureCredential of azure-identity, which renews its tokens.

    A deployment counts as an address and is in no identity. A model therefore keeps its replies
    when it moves to Azure.
    """

    deployment: str = ""
    api_version: str = ""
    entra_id: bool = False

    provider: ClassVar[str] = "azure"
    has_batches: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        path = urlsplit(self.base_url).path.rstrip("/")
        if path.endswith("/openai/v1"):
            action = (
                "use provider: openai with this base_url, or leave only"
                " https://NAME.openai.azure.com"
            )
            raise SettingsError(
                f"{self.where}: base_url is that of Azure's API without deployments; {action}"
            )
        if "/deployments/" in path:
            action = (
                "write https://NAME.openai.azure.com, and the deployment's name under deployment"
            )
            raise SettingsError(f"{self.where}: base_url has a deployment in it; {action}")

    @property
    def resource(self) -> str:
        """Address without the path that the client adds itself."""
        return self.address.removesuffix("/openai") if self.base_url else ""

    @property
    def digest(self) -> str:
        """Digest of resource, deployment and model, because each deployment has limits of its
        own."""
        content = f"{self.resource}\n{self._deployment}\n{self.model}"
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def shown(self) -> str:
        return f"{self.provider}, {self.resource}, deployment {self._deployment}"

    @property
    def _deployment(self) -> str:
        return self.deployment or self.model

    def preflight(self) -> None:
        """Check that an address and credentials are set, and then the server as
        ``Endpoint.preflight`` does."""
        if not self.base_url:
            raise AuthError(
                f"{self.where}: no base_url; set it to the resource, https://NAME.openai.azure.com"
            )
        if not (self.api_key or self.entra_id or self.connection.headers):
            raise AuthError(
                f"{self.where}: no api_key; set it, or entra_id: true to sign in with Microsoft"
                " Entra ID"
            )
        super().preflight()

    def _open_client(self) -> "OpenAI":
        """Create the client of the deployment.

        The API version of the connection's query comes first, then that of the settings, then that
        of the address.
        """
        from openai import AzureOpenAI

        query = dict(parse_qsl(urlsplit(self.base_url).query))
        in_address = query.pop("api-version", "")
        common = self.client_arguments(query)
        version = (
            self.connection.query.get("api-version")
            or self.api_version
            or in_address
            or API_VERSION
        )
        common["default_query"] = {**common["default_query"], "api-version": version}
        if self.entra_id:
            credentials = self._entra_id_credentials()
        else:
            credentials = {"api_key": self.api_key or "none"}
        return AzureOpenAI(
            azure_endpoint=self.resource,
            azure_deployment=self._deployment,
            api_version=version,
            **credentials,
            **common,
        )

    def _entra_id_credentials(self) -> dict[str, Any]:
        """Return the client arguments for Entra ID. Raise SettingsError without azure-identity."""
        try:
            from azure.identity import DefaultAzureCredential, get_bearer_token_provider
        except ImportError:
            fact = "entra_id needs azure-identity"
            raise SettingsError(f"{self.where}: {fact}; {install_extra('azure')}") from None
        # The provider keeps a token until it is about to expire, and then requests the next one.
        return {
            "azure_ad_token_provider": get_bearer_token_provider(DefaultAzureCredential(), SCOPE)
        }

    def failure(self, error: Exception) -> Failure:
        """Return the failure that an exception means, those of the sign-in by Entra ID included."""
        if not type(error).__module__.startswith("azure."):
            return super().failure(error)
        said = self._safe(in_words(error))
        if type(error).__name__ in ("ClientAuthenticationError", "CredentialUnavailableError"):
            action = (
                "run 'az login', or set the variables of azure-identity, or set api_key and remove"
                " entra_id"
            )
            refused = AuthError(
                f"{self.where}: Microsoft Entra ID gives no token ({said}); {action}"
            )
            return Failure("bad_request", said, fatal=refused, status=401)
        return Failure(
            "server_error", f"Microsoft Entra ID does not answer ({said})", answered=False
        )

    def refusal(self, status: int, detail: str) -> Failure:
        """Return the failure of a refused call. Status 404 means a wrong deployment or a wrong
        address."""
        if status != 404:
            return super().refusal(status, detail)
        message = f"HTTP {status}: {self._safe(detail)}"
        if "deploymentnotfound" in detail.lower().replace(" ", ""):
            fact = f"{self.resource} has no deployment '{self._deployment}' ({message})"
            action = "correct deployment; a new one answers after about five minutes"
        else:
            fact = f"{self.resource} has no such path ({message})"
            action = "correct base_url, deployment or api_version"
        missing = NoSuchModelError(f"{self.where}: {fact}; {action}")
        return Failure("bad_request", message, fatal=missing)

    def _key_refused(self, status: int) -> AuthError:
        if self.entra_id:
            action = f"give the identity the role '{ROLE}' on the resource"
            return AuthError(
                f"{self.where}: {self.resource} refused the identity ({status}); {action}"
            )
        action = "set api_key to a key of this resource, or entra_id: true"
        return AuthError(f"{self.where}: {self.resource} refused the key ({status}); {action}")
