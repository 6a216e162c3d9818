import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from pipeline.errors import SettingsError
from pipeline.settings.file import read_settings
from pipeline.settings.query_options import QuerySettings
from pipeline.settings.schema import (
    AllowSettings,
    AuditSettings,
    BatchSettings,
    ChatSettings,
    CypherSettings,
    EmbeddingSettings,
    GraphragSettings,
    HnswSettings,
    InputSettings,
    KeySettings,
    LightragSettings,
    MetricsSettings,
    ModelsSettings,
    Neo4jSettings,
    OidcSettings,
    PostedSettings,
    PostgresSettings,
    Price,
    RerankSettings,
    RightsSettings,
    RunsSettings,
    ServeSettings,
    Settings,
    StoresSettings,
    TracingSettings,
    UsersSettings,
)

CANARY = "sk-canary-1f0e"
SECTIONS: dict[str, type[BaseModel]] = {
    "": Settings,
    "input": InputSettings,
    "models": ModelsSettings,
    "models.chat.default": ChatSettings,
    "models.chat.default.price": Price,
    "models.chat.default.batch": BatchSettings,
    "models.embedding.default": EmbeddingSettings,
    "models.embedding.default.price": Price,
    "models.rerank.default": RerankSettings,
    "stores": StoresSettings,
    "stores.postgres": PostgresSettings,
    "stores.postgres.hnsw": HnswSettings,
    "stores.neo4j": Neo4jSettings,
    "cypher": CypherSettings,
    "query": QuerySettings,
    "graphrag": GraphragSettings,
    "lightrag": LightragSettings,
    "serve": ServeSettings,
    "serve.allow": AllowSettings,
    "serve.keys.default": KeySettings,
    "serve.audit": AuditSettings,
    "serve.documents": PostedSettings,
    "serve.runs": RunsSettings,
    "serve.users": UsersSettings,
    "serve.users.oidc": OidcSettings,
    "serve.users.groups.default": RightsSettings,
    "metrics": MetricsSettings,
    "tracing": TracingSettings,
}
UNSAID = {"models.embedding.default.price": {"output"}}
"""An embedding has no output to pay for."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path, "")


def write(root: Path, content: str) -> Path:
    (root / "settings.yaml").write_text(content, encoding="utf-8")
    return root


def nested(path: str, value: object) -> dict[str, object]:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def misspelt(key: str) -> Iterator[str]:
    for place in range(len(key)):
        yield key[:place] + key[place + 1 :]
        yield key[:place] + "x" + key[place + 1 :]
        yield key[:place] + key[place : place + 2][::-1] + key[place + 2 :]


def test_every_key_is_optional(project: Path):
    settings = read_settings(project)
    assert settings == Settings()
    assert settings.models.chat["default"].model == "gpt-4o-mini"


def test_the_settings_that_are_delivered_are_valid(tmp_path: Path):
    delivered = Path(__file__).parents[2] / "settings.yaml"
    read_settings(write(tmp_path, delivered.read_text(encoding="utf-8")))


def test_a_new_project_reads_articles_and_one_without_the_line_whole_pages(project: Path):
    delivered = (Path(__file__).parents[2] / "settings.yaml").read_text(encoding="utf-8")
    assert read_settings(write(project, delivered)).input.web_pages == "article"
    assert read_settings(write(project, "input: {}")).input.web_pages == "whole"


@pytest.mark.parametrize(
    ("section", "model"), SECTIONS.items(), ids=lambda value: str(value) or "top"
)
def test_every_key_is_in_the_settings_that_are_delivered_or_in_a_comment_there(
    section: str, model: type[BaseModel]
):
    text = section_text(
        (Path(__file__).parents[2] / "settings.yaml").read_text(encoding="utf-8"), section
    )
    words = set(re.findall(r"\w+", text))
    assert set(model.model_fields) - UNSAID.get(section, set()) <= words


def section_text(text: str, section: str) -> str:
    """The lines of the section, with their comments; of the nearest one above where it is not
    there."""
    node = yaml.compose(text)
    for key in filter(None, section.split(".")):
        below = {name.value: value for name, value in node.value}
        if key not in below or not isinstance(below[key], yaml.MappingNode):
            break
        node = below[key]
    return text[node.start_mark.index : node.end_mark.index]


@pytest.mark.parametrize(
    ("section", "model"), SECTIONS.items(), ids=lambda value: str(value) or "top"
)
def test_a_misspelt_key_is_answered_with_the_right_one(
    tmp_path: Path, section: str, model: type[BaseModel]
):
    outcomes = []
    for key in model.model_fields:
        for wrong in sorted(set(misspelt(key)) - set(model.model_fields) - {""}):
            content = yaml.safe_dump(nested(f"{section}.{wrong}".strip("."), CANARY))
            with pytest.raises(SettingsError) as error:
                read_settings(write(tmp_path, content))
            assert f"unknown key '{f'{section}.{wrong}'.strip('.')}'" in str(error.value)
            assert CANARY not in str(error.value)
            outcomes.append(f"did you mean '{key}'?" in str(error.value))
    assert sum(outcomes) >= 0.95 * len(outcomes)


def test_a_model_may_be_named_like_a_key(project: Path):
    with pytest.raises(
        SettingsError, match=r"'models\.chat\.price\.modle'; did you mean 'model'\?"
    ):
        read_settings(write(project, "models: {chat: {price: {modle: x}}}"))


def test_a_key_that_is_like_no_other_is_answered_with_all(project: Path):
    with pytest.raises(
        SettingsError, match=r"unknown key 'stores\.zzzz'; known keys: graph, neo4j, postgres"
    ):
        read_settings(write(project, "stores: {zzzz: 1}"))


@pytest.mark.parametrize(
    "content",
    [
        "query: {top_k: 0}",
        "query: {mode: lokal}",
        "workspace: 'a b'",
        "stores: []",
        "1: x",
        "input: {path: [x]}",
    ],
)
def test_a_value_that_does_not_fit_names_its_key(project: Path, content: str):
    with pytest.raises(SettingsError, match=r"^settings\.yaml: .*[a-z0-9_.]+"):
        read_settings(write(project, content))


@pytest.mark.parametrize(
    "content", ["- a", "just text", "a: [", "\tb: 1", "a: b: c", "caf\u00e9: \x01"]
)
def test_a_file_that_holds_no_keys_and_values_is_refused(project: Path, content: str):
    with pytest.raises(
        SettingsError, match=r"settings\.yaml: (not YAML|not a YAML text|expected keys)"
    ):
        read_settings(write(project, content))


def test_a_folder_without_settings_says_what_to_do(tmp_path: Path):
    with pytest.raises(SettingsError, match="graphmill init"):
        read_settings(tmp_path)


def test_values_come_from_the_environment_the_env_file_and_the_default(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GM_ENV", "from env")
    monkeypatch.setenv("GM_EMPTY", "")
    (project / ".env").write_text("GM_ENV=from file\nGM_FILE='from $HOME file'\n")
    write(
        project,
        'language: "${GM_ENV}, ${GM_FILE}, ${GM_NONE:-a default}, ${GM_EMPTY:-other}, ${GM_NONE:-},'
        ' $plain"',
    )
    assert (
        read_settings(project).language == "from env, from $HOME file, a default, other, , $plain"
    )


def test_an_env_file_with_a_byte_order_mark_is_read_and_one_in_utf_16_refused(project: Path):
    write(project, 'language: "${GM_FILE:-none}"')
    (project / ".env").write_text("GM_FILE=from file", encoding="utf-8-sig")
    assert read_settings(project).language == "from file"
    (project / ".env").write_text("GM_FILE=hidden", encoding="utf-16")
    with pytest.raises(SettingsError, match=r"\.env: not UTF-8; save it as UTF-8") as told:
        read_settings(project)
    assert "hidden" not in str(told.value)


def test_the_environment_may_give_a_number(project: Path):
    write(project, 'models: {chat: {default: {concurrency: "${GM_NONE:-4}"}}}')
    assert read_settings(project).models.chat["default"].concurrency == 4


def test_a_variable_that_is_not_set_is_named_with_its_key(project: Path):
    write(project, "stores: {neo4j: {password: '${GM_NONE}'}}")
    with pytest.raises(
        SettingsError, match=r"stores: neo4j: password: the environment variable GM_NONE is not set"
    ):
        read_settings(project)


def test_overrides_win_and_make_sections(project: Path):
    write(project, "query: {top_k: 5, mode: local}")
    overrides = ["query.top_k=7", "models.chat.fast.model=a=b", "stores.graph=neo4j"]
    settings = read_settings(project, overrides)
    assert (settings.query.top_k, settings.query.mode) == (7, "local")
    assert settings.models.chat["fast"].model == "a=b"
    assert settings.stores.graph == "neo4j"


@pytest.mark.parametrize(
    "override",
    ["query.top_k", "=1", "query..top_k=1", "query.mode.x=1", "query.mode=[", "query.topk=3"],
)
def test_an_override_that_makes_no_sense_is_refused(project: Path, override: str):
    with pytest.raises(SettingsError):
        read_settings(write(project, "query: {mode: local}"), [override])


def test_a_mistake_is_told_as_one_of_the_override_or_of_the_file(project: Path):
    with pytest.raises(SettingsError, match=r"^--set: unknown key 'query\.topk'"):
        read_settings(write(project, "query: {mode: local}"), ["query.topk=3"])
    with pytest.raises(SettingsError, match=r"^settings\.yaml: unknown key 'query\.topk'"):
        read_settings(write(project, "query: {topk: 3}"), ["query.mode=local"])


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("workspace=My Space", "workspace"),
        ("serve.users.user_header=X User", r"serve\.users\.user_header"),
        ("serve.keys.a b.key=x", r"serve\.keys\.a b"),
        ("serve.views.Public.where={a: b}", r"serve\.views\.Public"),
    ],
)
def test_a_name_that_does_not_fit_is_told_what_it_may_have(
    project: Path, override: str, place: str
):
    with pytest.raises(
        SettingsError, match=rf"^--set: {place}: not a possible name; write .* of the characters"
    ):
        read_settings(write(project, ""), [override])


def secrets() -> dict[str, object]:
    return {
        "models": {
            "chat": {"default": {"api_key": CANARY}},
            "embedding": {"default": {"api_key": CANARY}},
            "rerank": {"default": {"api_key": CANARY}},
        },
        "stores": {
            "neo4j": {"password": CANARY},
            "postgres": {"url": f"postgresql://me:{CANARY}@db/graph"},
        },
        "cache": f"postgresql://me:{CANARY}@db/cache",
    }


def test_no_secret_is_shown_with_the_settings(project: Path):
    settings = read_settings(write(project, yaml.safe_dump(secrets())))
    assert CANARY in settings.models.chat["default"].api_key.get_secret_value()
    shown = [repr(settings), str(settings), f"{settings.stores}", f"{settings.models.chat}"]
    assert not [text for text in shown if CANARY in text]


@pytest.mark.parametrize(
    ("content", "overrides"),
    [
        (yaml.safe_dump(secrets() | {"qery": 1}), []),
        (f"models: {{chat: {{default: {{api_key: [{CANARY}]}}}}}}", []),
        (f"models: {{chat: {{default: {{timeout: {CANARY}}}}}}}", []),
        (f"models: {{chat: {CANARY}}}", []),
        (f'models: {{chat: {{default: {{api_key: "{CANARY}}}}}}}', []),
        (f"stores: {{neo4j: {{password: *{CANARY}}}}}", []),
        (f"stores: {{neo4j: {{password: !{CANARY} x}}}}", []),
        ("", [f"models.chat.default.api_key.x={CANARY}"]),
        ("models: {chat: {default: {api_key: a}}}", [f"models.chat.default.api_key.x={CANARY}"]),
        ("", [f"models.chat.default.api_key=*{CANARY}"]),
        ("", [f"models.chat.default.apikey={CANARY}"]),
    ],
)
def test_no_secret_is_shown_in_an_error(project: Path, content: str, overrides: list[str]):
    with pytest.raises(SettingsError) as error:
        read_settings(write(project, content), overrides)
    assert CANARY not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize(
    "override",
    [
        "stores.postgres.url=nonsense",
        f"stores.postgres.url={CANARY}",
        f"stores.postgres.url=mysql://ada:{CANARY}@host/db",
        f"stores.postgres.url=postgresql://ada:{CANARY}@host:port/db",
    ],
)
def test_an_address_of_another_kind_is_refused_and_not_shown(project: Path, override: str):
    with pytest.raises(
        SettingsError, match=r"stores\.postgres\.url: .*write postgresql://"
    ) as refused:
        read_settings(project, [override])
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    ["nonsense", "http://host:7474", "bolt://", f"bolt://neo4j:{CANARY}@host:7687", "bolt://["],
)
def test_a_neo4j_is_named_by_its_own_protocols(project: Path, uri: str):
    with pytest.raises(
        SettingsError, match=r"stores\.neo4j\.uri: .*write bolt://host:7687"
    ) as refused:
        read_settings(project, [f"stores.neo4j.uri='{uri}'"])
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "embedded",
        "postgres://h/d",
        "postgresql+psycopg://u:p%40@h:5433/d",
        "postgresql://u:@/d?host=/run/pg",
    ],
)
def test_addresses_of_postgres_are_taken(project: Path, url: str):
    assert read_settings(project, [f"stores.postgres.url={url}"]).stores.postgres.url == url


@pytest.mark.parametrize(
    "key", ["max_reject_ratio", "max_delete_ratio", "models.chat.default.timeout"]
)
@pytest.mark.parametrize("value", [".nan", ".inf", "nan"])
def test_a_number_is_finite(project: Path, key: str, value: str):
    with pytest.raises(SettingsError, match=key.replace(".", r"\.")):
        read_settings(project, [f"{key}={value}"])


@pytest.mark.parametrize(
    "origin", ["wiki.example.org", "https://wiki.example.org/", "https://Wiki.example.org", ""]
)
def test_an_origin_that_no_browser_sends_is_refused(project: Path, origin: str):
    with pytest.raises(SettingsError, match=r"serve\.cors_origins\.0: no origin; write scheme"):
        read_settings(project, [f"serve.cors_origins=['{origin}']"])


@pytest.mark.parametrize("address", ["wiki.example.org", "ftp://a", "http://a?b", "https://a/(b)"])
def test_an_address_to_which_no_answer_can_link_is_refused(project: Path, address: str):
    with pytest.raises(SettingsError, match=r"serve\.public_url: (no|an) address"):
        read_settings(project, [f"serve.public_url={address}"])


@pytest.mark.parametrize("origin", ["https://wiki.example.org:8443", "http://[::1]:3000", "*"])
def test_an_origin_of_a_browser_is_taken(project: Path, origin: str):
    read = read_settings(project, [f"serve.cors_origins=['{origin}']"])
    assert read.serve.cors_origins == (origin,)
