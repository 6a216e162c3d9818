import json
import os
import re
import shlex
from pathlib import Path
from string import Template

import pytest
import yaml
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.errors import UsageError
from pipeline.settings.file import read_settings
from pipeline.settings.init import init_project
from pipeline.settings.schedules import find_command, find_unpriced
from pipeline.settings.schema import Settings

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_empty_folder_becomes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NEO4J_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    written, kept = init_project(tmp_path / "new" / "project")
    made = files(tmp_path / "new" / "project")
    assert kept == []
    assert written == sorted(made)
    assert {
        "settings.yaml",
        "workflows/index.yaml",
        "workflows/fast.yaml",
        "prompts/extract_graph.md",
    } <= set(made)
    assert {".env.example", ".gitignore"} <= set(made)
    assert (tmp_path / "new" / "project" / "data" / "input").is_dir()
    assert isinstance(read_settings(tmp_path / "new" / "project"), Settings)
    assert ".env" in made[".gitignore"].splitlines()


def test_what_was_there_is_never_overwritten(tmp_path: Path):
    written, _ = init_project(tmp_path)
    for name in written:
        (tmp_path / name).write_text(f"mine: {name}", encoding="utf-8")
    (tmp_path / "settings.yaml").unlink()
    again, kept = init_project(tmp_path)
    assert again == ["settings.yaml"]
    assert kept == sorted(set(written) - {"settings.yaml"})
    assert all(files(tmp_path)[name] == f"mine: {name}" for name in kept)
    assert yaml.safe_load(files(tmp_path)["settings.yaml"])


def test_with_a_sample_there_are_documents_and_questions_about_them(tmp_path: Path):
    written, _ = init_project(tmp_path, sample=True)
    plain, _ = init_project(tmp_path / "plain")
    sources = {name.removeprefix("data/input/") for name in set(written) - set(plain)}
    questions = map(json.loads, files(tmp_path)["data/questions.jsonl"].splitlines())
    gold = {source.partition("#")[0] for question in questions for source in question["documents"]}
    assert gold <= sources
    assert "!data/questions.jsonl" in files(tmp_path)[".gitignore"].splitlines()


@pytest.mark.parametrize(
    ("folder", "told"),
    [([], "then run: graphmill run"), (["my docs"], "then run: graphmill -C 'my docs' run")],
)
def test_the_next_command_is_told_as_it_is_to_be_typed(
    folder: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", *folder]).stdout.endswith(f"{told}\n")


def test_a_sample_does_not_come_among_documents_of_ones_own(tmp_path: Path):
    own = tmp_path / "data" / "input" / "2026" / "report.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine", encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"report\.md is a document of your own; make the sample in another folder"
    ):
        init_project(tmp_path, sample=True)
    assert list(files(tmp_path)) == ["data/input/2026/report.md"]
    own.rename(own.with_name(".gitkeep"))
    written, _ = init_project(tmp_path, sample=True)
    assert init_project(tmp_path, sample=True) == ([], written)


def test_the_nightly_files_come_into_a_project_that_is_there(tmp_path: Path):
    init_project(tmp_path)
    written, _ = init_project(tmp_path, nightly=True)
    assert written == sorted(
        f"nightly/{path.name}" for path in (ROOT / "examples" / "nightly").iterdir()
    )
    assert os.access(tmp_path / "nightly" / "nightly.sh", os.X_OK)
    assert not os.access(tmp_path / "nightly" / "crontab", os.X_OK)


def test_the_nightly_files_have_the_paths_of_this_project_and_this_graphmill(tmp_path: Path):
    project = tmp_path / "100% of our /srv/knowledge"
    init_project(project, nightly=True)
    folder = project / "nightly"
    made = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    for name, text in made.items():
        assert not re.search(r"(?<!our )/srv/knowledge|/opt/graphmill|=graphmill$", text), name
    command = find_command()
    words = shlex.split(made["graphmill.service"].partition("ExecStart=")[2].splitlines()[0])
    assert words[:4] == [command, "-C", str(project).replace("%", "%%"), "run"]
    for job in yaml.safe_load_all(made["cronjob.yaml"]):
        template = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = template["containers"]
        assert container["command"][:3] == ["graphmill", "-C", str(project)]
        assert container["volumeMounts"][0]["mountPath"] == str(project)
    for line in made["crontab"].splitlines():
        if line[0] != "#":
            words = shlex.split(line.replace(r"\%", "%"))
            assert words[5] == str(folder / "nightly.sh")


def limits_of_schedules(folder: Path) -> list[str]:
    """The limit in each file of a schedule that runs the workflow."""
    found = []
    for name in ("crontab", "cronjob.yaml", "graphmill.service"):
        text = (folder / "nightly" / name).read_text(encoding="utf-8")
        commands = [line for line in text.splitlines() if line[:1] != "#"]
        found += re.findall(r"--max-\w+,? \S+(?=, --log|$)", "\n".join(commands), re.MULTILINE)
    return found


def test_a_schedule_limits_tokens_where_a_model_has_no_price(tmp_path: Path):
    init_project(tmp_path / "shipped", nightly=True)
    assert limits_of_schedules(tmp_path / "shipped") == [
        "--max-cost 5", '--max-cost, "5"', "--max-cost 5",
    ]  # fmt: skip
    unpriced = "models: {chat: {default: {model: llama, provider: ollama}}}\n"
    (tmp_path / "settings.yaml").write_text(unpriced, encoding="utf-8")
    init_project(tmp_path, nightly=True)
    assert limits_of_schedules(tmp_path) == [
        "--max-tokens 20000000", '--max-tokens, "20000000"', "--max-tokens 20000000",
    ]  # fmt: skip
    for name in ("crontab", "cronjob.yaml", "graphmill.service"):
        first = (tmp_path / "nightly" / name).read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# A limit of tokens, since models.chat.default has no price")
    assert len(list(yaml.safe_load_all((tmp_path / "nightly/cronjob.yaml").read_text()))) == 2


@pytest.mark.parametrize(
    ("models", "unpriced"),
    [
        ("{}", ""),
        ("{embedding: {default: {provider: local}}}", ""),
        ("{embedding: {default: {model: bge-m3}}}", "models.embedding.default"),
        ("{embedding: {default: {model: bge-m3, price: {input: 0}}}}", ""),
        ("{chat: {default: {}, judge: {model: other}}}", "models.chat.judge"),
    ],
)
def test_a_model_that_costs_is_found_without_its_price(models: str, unpriced: str):
    assert find_unpriced(Settings.model_validate({"models": yaml.safe_load(models)})) == unpriced


def test_without_a_command_to_start_no_schedule_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"init: no command graphmill in .* or on PATH"):
        init_project(tmp_path / "p", nightly=True)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(("code", "name"), [("de", "Deutsch"), ("zh", "中文")])
def test_prompts_of_a_language_have_the_placeholders_of_the_english_ones(
    code: str, name: str, tmp_path: Path
):
    init_project(tmp_path / "en")
    init_project(tmp_path / code, language=code)
    english, own = files(tmp_path / "en"), files(tmp_path / code)
    assert own.keys() == english.keys()
    differing = {file for file in english if own[file] != english[file]}
    translated = differing - {"settings.yaml"}
    assert "prompts/extract_graph.md" in translated
    for file in translated:
        found, wanted = (set(Template(text[file]).get_identifiers()) for text in (own, english))
        assert found == wanted, file
    assert read_settings(tmp_path / code).language == name
    assert read_settings(tmp_path / "en").language == "English"


def test_a_language_without_prompts_is_refused_with_nothing_written(tmp_path: Path):
    with pytest.raises(UsageError, match="no prompts in 'xx' come with graphmill; have: de, zh"):
        init_project(tmp_path / "new", language="xx")
    assert not (tmp_path / "new").exists()
