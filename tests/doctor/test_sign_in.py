"""What the doctor says of the OpenID Connect provider."""

from collections.abc import Iterator

import pytest

from pipeline.doctor.finding import Finding
from pipeline.doctor.sign_in import examine_sign_in
from pipeline.settings.schema import OidcSettings

pytest.importorskip("joserfc", reason="the provider of the tests signs tokens by joserfc")

from tests.servers.oidc_server import OidcServer, oidc_server


@pytest.fixture
def provider() -> Iterator[OidcServer]:
    with oidc_server() as server:
        yield server


def examine(issuer: str) -> list[Finding]:
    public_url = "https://graph.example"
    settings = OidcSettings(issuer=issuer, client_id="a", public_url=public_url)
    return list(examine_sign_in(settings))


def test_a_provider_that_answers_is_well_and_the_redirect_address_is_told(provider: OidcServer):
    (finding,) = examine(provider.issuer)
    assert finding.verdict == "ok"
    assert "https://graph.example/oidc/callback" in finding.fact


def test_a_provider_of_another_name_is_a_failure(provider: OidcServer):
    provider.calls_itself = "https://other.example"
    (finding,) = examine(provider.issuer)
    assert (finding.verdict, "other.example" in finding.fact) == ("failed", True)


def test_an_address_without_a_provider_is_a_failure(provider: OidcServer):
    for issuer in (f"{provider.issuer}/nothing", "http://127.0.0.1:1"):
        (finding,) = examine(issuer)
        assert finding.verdict == "failed"
        assert "serve.users.oidc.issuer" in finding.action


def test_without_an_issuer_there_is_no_finding():
    assert list(examine_sign_in(OidcSettings())) == []
