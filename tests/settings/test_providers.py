"""Providers, headers, parameters and certificates in settings.yaml: what is taken, and what is
refused how."""

from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings.file import read_settings
from pipeline.settings.providers import qualified_name, revealed
from pipeline.settings.schema import ChatSettings

CANARY = "canary-2f61-secret"


def read(root: Path, chat: str, kind: str = "chat"):
    (root / "settings.yaml").write_text(
        f"models: {{{kind}: {{default: {chat}}}}}", encoding="utf-8"
    )
    return getattr(read_settings(root).models, kind)["default"]


def test_values_come_from_the_environment_and_are_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GM_KEY", CANARY)
    chat = read(
        tmp_path,
        '{headers: {X-Key: "${GM_KEY}", X-Number: 7, X-On: true}, query: {api-version:'
        " 2024-06-01}}",
    )
    assert revealed(chat.headers) == {"X-Key": CANARY, "X-Number": "7", "X-On": "true"}
    assert revealed(chat.query) == {"api-version": "2024-06-01"}
    assert CANARY in list(chat.secrets)
    assert CANARY not in f"{chat!r} {chat} {chat.model_dump()} {chat.model_dump_json()}"


def test_a_version_may_be_written_without_quotes(tmp_path: Path):
    chat = read(tmp_path, "{provider: azure, base_url: 'https://x', api_version: 2024-06-01}")
    assert chat.api_version == "2024-06-01"
    assert read(tmp_path, "{provider: python, function: 'a:b', version: 1.5}").version == "1.5"


@pytest.mark.parametrize(
    ("kind", "section", "said"),
    [
        ("chat", f"{{headers: {{'X Key': {CANARY}}}}}", r"models\.chat\.default\.headers\.X Key"),
        (
            "chat",
            f'{{headers: {{X-Key: "{CANARY}\\nX-Other: 1"}}}}',
            r"headers\.X-Key: a line break or a character",
        ),
        (
            "chat",
            f"{{headers: {{X-Key: 'ключ {CANARY}'}}}}",
            r"headers\.X-Key: a line break or a character",
        ),
        ("chat", f"{{headers: {CANARY}}}", r"models\.chat\.default\.headers: "),
        ("chat", f"{{query: {{a: [{CANARY}]}}}}", r"models\.chat\.default\.query\.a: "),
        ("chat", "{client_key: k.pem}", "client_key needs a client_cert"),
        (
            "chat",
            "{deployment: x}",
            "deployment is for provider: azure; set that provider, or remove deployment",
        ),
        ("chat", "{provider: litellm, entra_id: true}", "entra_id is for provider: azure"),
        ("chat", "{function: 'a:b'}", "function is for provider: python"),
        ("chat", f"{{arguments: {{x: {CANARY}}}}}", "arguments is for provider: litellm"),
        (
            "chat",
            "{provider: litellm, arguments: {temperature: 1}}",
            "'temperature' is part of a request",
        ),
        (
            "chat",
            "{provider: litellm, ca_bundle: x}",
            "ca_bundle has no effect with provider: litellm; .*SSL_CERT_FILE",
        ),
        (
            "chat",
            f"{{provider: litellm, query: {{a: {CANARY}}}}}",
            "query has no effect with provider: litellm",
        ),
        (
            "chat",
            f"{{provider: python, function: 'a:b', headers: {{a: {CANARY}}}}}",
            "headers has no effect with",
        ),
        (
            "chat",
            "{provider: python}",
            'provider: python needs a function; set function: "module:name"',
        ),
        (
            "chat",
            "{provider: python, function: my_models}",
            r'function: not the name of a function; write "module:name"',
        ),
        ("chat", "{provider: python, function: '../x.py:f'}", "not the name of a function"),
        (
            "chat",
            "{provider: ollama, extra_body: {options: [4096]}}",
            r"extra_body\.options: not a mapping",
        ),
        (
            "chat",
            "{provider: ollama, extra_body: {options: {num_ctx: '4096'}}}",
            "num_ctx: no whole number above 0",
        ),
        ("chat", "{provider: bedrock}", r"models\.chat\.default\.provider: "),
        (
            "embedding",
            f"{{headers: {{a: {CANARY}}}}}",
            "headers has no effect with provider: builtin",
        ),
        (
            "embedding",
            "{provider: local, ca_bundle: x}",
            "ca_bundle has no effect with provider: local",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place_and_no_value(
    kind: str, section: str, said: str, tmp_path: Path
):
    with pytest.raises(SettingsError, match=rf"^settings\.yaml: .*{said}") as refused:
        read(tmp_path, section, kind)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("kind", ["chat", "embedding", "rerank"])
def test_an_address_that_holds_a_password_is_in_no_repr(kind: str, tmp_path: Path):
    model = read(
        tmp_path, f"{{base_url: 'https://user:{CANARY}@x/v1?sig={CANARY}', model: m}}", kind
    )
    assert CANARY in model.base_url
    assert CANARY not in f"{model!r} {model}"


def test_an_unknown_key_beside_a_provider_has_its_neighbour_named(tmp_path: Path):
    with pytest.raises(
        SettingsError, match=r"unknown key '.*deploymnt'; did you mean 'deployment'"
    ):
        read(tmp_path, "{provider: azure, deploymnt: x}")


@pytest.mark.parametrize(
    ("section", "configured"),
    [
        ("{}", False),
        ("{provider: azure}", False),
        ("{provider: azure, base_url: 'https://x'}", True),
        ("{provider: litellm, model: a/b}", True),
        ("{provider: python, function: 'a:b'}", True),
    ],
)
def test_a_model_is_configured_where_it_can_be_asked(
    section: str, configured: bool, tmp_path: Path
):
    assert read(tmp_path, section).configured is configured


def test_a_function_names_its_model_unless_a_model_is_named(tmp_path: Path):
    assert read(tmp_path, "{provider: python, function: 'a.py:b'}").named_model == "a:b"
    assert read(tmp_path, "{provider: python, function: 'a:b', model: mine}").named_model == "mine"
    assert read(tmp_path, "{provider: python, function: 'a:b'}", "embedding").named_model == "a:b"
    assert ChatSettings().named_model == "gpt-4o-mini"


class Callable:
    def __call__(self) -> None: ...


def test_functions_classes_and_objects_have_names():
    assert qualified_name(read) == f"{__name__}:read"
    assert qualified_name(Callable) == qualified_name(Callable()) == f"{__name__}:Callable"
