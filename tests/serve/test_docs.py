"""Check the pages docs/serving*.md: their commands run as they stand, their errors are all, and
their settings are the defaults."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipeline.errors import DiskFullError
from pipeline.serve.failures import BY_KIND, BY_STATUS, OWN, failure_of
from pipeline.settings.query_fields import MODES
from pipeline.settings.schema import ServeSettings
from tests.serve.serving import Serving, events_in

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("serving*.md")}
COMMANDS = re.findall(r"```\n(curl .*?)\n```", PAGES["serving"], re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_commands_run(served: Serving):
    said = []
    for command in COMMANDS:
        here = command.replace("http://127.0.0.1:8020", served.url)
        said.append(
            subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=True).stdout
        )
    answer, data, stream, health = said
    assert json.loads(answer)["answer"]
    assert json.loads(data)["chunks"]
    assert events_in(stream)[-1].name == "done"
    assert json.loads(health)["status"] == "ok"


def test_every_error_is_told():
    types = {
        *BY_STATUS.values(),
        *(name for _, _, name in BY_KIND),
        *(name for _, name in OWN.values()),
    }
    assert {type for type in types if f"`{type}`" not in PAGES["serving-http"]} == set()


def test_the_settings_are_the_defaults():
    blocks = [
        yaml.safe_load(block)["serve"]
        for page in PAGES.values()
        for block in re.findall(r"```yaml\n(.*?)\n```", page, re.DOTALL)
    ]
    examples = {next(iter(block)): block for block in blocks}
    for told in (examples["page"], examples["concurrency"]):
        assert told == {name: getattr(ServeSettings(), name) for name in told}
    allowed = ServeSettings().allow.model_dump(mode="json")
    # The page names the default of modes in words, so that a new mode needs no line there.
    assert set(allowed.pop("modes")) == set(MODES) - {"bypass"}
    assert examples["allow"] == {"allow": allowed}
    assert ServeSettings.model_validate(examples["keys"]).keys["sales"].where


def test_a_full_disk_is_told_by_its_own_status():
    failure = failure_of(DiskFullError("data/usage: no space; make room"), sees_internals=True)
    assert (failure.status, failure.type, failure.message) == (
        507,
        "disk_full",
        "data/usage: no space; make room",
    )
