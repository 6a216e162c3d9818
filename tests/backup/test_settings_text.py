"""Secrets leave the text of settings.yaml, and everything else stays as it was written."""

from pathlib import Path

import pytest
import yaml

from pipeline.backup.settings_text import with_values, without_secrets
from pipeline.errors import DataError
from pipeline.settings.file import read_settings

TEXT = """\
workspace: default   # the corpus
models:
  chat:
    default:
      base_url: "https://models.example.org/v1"
      api_key: sk-canary-1   # was sk-canary-1
      headers: {X-Key: canary-2, X-Ref: "${THERE:-}"}
    other: {api_key: "${KEY_OF_OTHER:-}", model: small}
stores:
  postgres:
    url: 'postgresql://mill:canary-3@db.example.org/knowledge'
  neo4j:
    password: "${NEO4J_PASSWORD:-canary-4}"
serve:
  keys:
    desk: {key: "canary-5-with-many-characters-in-it"}
inputs:
  - {name: wiki, type: folder, url: ../wiki}
  - {name: crm, type: sql, url: "sqlite:///crm.sqlite", query: "SELECT 1", id: a, text: b}
  - {name: erp, type: sql, url: "postgresql://u:canary-6@erp/db", query: "SELECT 1", id: a, text: b}
"""
VARIABLES = [
    "INPUTS_2_URL", "MODELS_CHAT_DEFAULT_API_KEY", "MODELS_CHAT_DEFAULT_HEADERS_X_KEY",
    "SERVE_KEYS_DESK_KEY", "STORES_NEO4J_PASSWORD", "STORES_POSTGRES_URL",
]  # fmt: skip


def test_secrets_become_variables_and_the_rest_stays(tmp_path: Path):
    (tmp_path / "settings.yaml").write_text(TEXT)
    settings = read_settings(tmp_path)
    text, variables = without_secrets(TEXT, settings)
    assert "canary" not in text
    assert variables == VARIABLES
    assert text.count("\n") == TEXT.count("\n")
    for kept in (
        "workspace: default   # the corpus", "https://models.example.org/v1", "../wiki",
        "${KEY_OF_OTHER:-}", "sqlite:///crm.sqlite", '"${THERE:-}"',
    ):  # fmt: skip
        assert kept in text
    assert without_secrets(text, settings) == (text, [])


def test_values_are_changed_in_their_place_or_added_at_the_end():
    text = 'workspace:   # empty\nmodels: {chat: {a: "x"}}'
    changed = with_values(
        text, {("workspace",): "drill", ("models", "chat", "a"): "y", ("snapshots",): "s"}
    )
    assert changed == ('workspace: "drill"   # empty\nmodels: {chat: {a: "y"}}\nsnapshots: "s"\n')


@pytest.mark.parametrize("secret", ["ollama", "password", "x", "null", "true", "models"])
def test_a_secret_that_is_a_word_of_the_file_is_replaced_in_its_place_alone(
    tmp_path: Path, secret: str
):
    text = f"""\
models:
  chat:
    default: {{provider: ollama, api_key: "{secret}", extra_body: null}}   # not {secret} any more
stores:
  neo4j: {{user: x, password: '{secret}'}}
"""
    edited, variables = read_and_hide(tmp_path, text)
    assert variables == ["MODELS_CHAT_DEFAULT_API_KEY", "STORES_NEO4J_PASSWORD"]
    content = yaml.safe_load(edited)
    assert content["models"]["chat"]["default"] == {
        "provider": "ollama", "api_key": "${MODELS_CHAT_DEFAULT_API_KEY:-}", "extra_body": None,
    }  # fmt: skip
    assert content["stores"]["neo4j"] == {"user": "x", "password": "${STORES_NEO4J_PASSWORD:-}"}
    assert f"not {secret} " not in edited


def test_a_key_without_a_value_is_no_secret(tmp_path: Path):
    text = "serve: {metrics_key: null, api_key: ~}\nengine: {address: null}\n"
    assert read_and_hide(tmp_path, text) == (text, [])


def test_a_secret_with_an_anchor_has_one_variable_and_keeps_the_anchor(tmp_path: Path):
    text = """\
models:
  chat:
    default: &d {api_key: &k "canary-1"}
    other: {api_key: *k, model: small}
    third: {<<: *d, model: large}
cypher: {password: &p !!str canary-2}
"""
    edited, variables = read_and_hide(tmp_path, text)
    assert "canary" not in edited
    assert variables == ["CYPHER_PASSWORD", "MODELS_CHAT_DEFAULT_API_KEY"]
    chat = yaml.safe_load(edited)["models"]["chat"]
    assert {one["api_key"] for one in chat.values()} == {"${MODELS_CHAT_DEFAULT_API_KEY:-}"}


def test_secrets_in_mappings_of_the_users_own_are_found_by_their_names(tmp_path: Path):
    text = """\
input:
  steps: [{verb: mask, args: {token: canary-1, auth: {secret: [canary-2]}, column: text}}]
models: {chat: {default: {extra_body: {api_key: canary-3, seed: 1, mode: fast}}}}
"""
    edited, variables = read_and_hide(tmp_path, text)
    assert "canary" not in edited
    assert variables == [
        "INPUT_STEPS_0_ARGS_AUTH_SECRET_0", "INPUT_STEPS_0_ARGS_TOKEN",
        "MODELS_CHAT_DEFAULT_EXTRA_BODY_API_KEY",
    ]  # fmt: skip
    for kept in ("column: text", "seed: 1", "mode: fast"):
        assert kept in edited


def test_secrets_in_the_words_of_a_command_and_in_addresses_are_found_by_their_names(
    tmp_path: Path,
):
    text = """\
input:
  converter: [curl, -H, "Authorization: Bearer canary-1", --api-key, canary-2, --token=canary-3,
              --retry, "3", -H, "Accept: text/plain", "https://c.example.org/{file}"]
models:
  chat:
    default: {base_url: "https://gw.example.org/v1?code=canary-4", extra_body: {cred: canary-5}}
"""
    (tmp_path / "settings.yaml").write_text(text)
    without, variables = without_secrets(text, read_settings(tmp_path))
    assert "canary" not in without
    assert variables == [
        "INPUT_CONVERTER_2", "INPUT_CONVERTER_4", "INPUT_CONVERTER_5",
        "MODELS_CHAT_DEFAULT_BASE_URL", "MODELS_CHAT_DEFAULT_EXTRA_BODY_CRED",
    ]  # fmt: skip
    for kept in ("--api-key", '"3"', "Accept: text/plain", "https://c.example.org/{file}"):
        assert kept in without


def test_a_text_that_cannot_be_changed_in_one_place_is_refused():
    with pytest.raises(DataError, match="write the file in plain YAML"):
        with_values("{workspace: a}", {("snapshots",): "s"})


def read_and_hide(folder: Path, text: str) -> tuple[str, list[str]]:
    (folder / "settings.yaml").write_text(text)
    return without_secrets(text, read_settings(folder))
