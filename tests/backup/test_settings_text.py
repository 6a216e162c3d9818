"""Secrets leave the text of settings.yaml, and everything else stays as it was written."""

from pathlib import Path

from pipeline.backup.settings_text import with_values, without_secrets
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
