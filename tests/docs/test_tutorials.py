"""The commands of each tutorial run, in their order, and give the output that the page shows."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, workspace_of
from tests.servers.ollama_server import ollama_server
from tests.servers.openai_server import OpenAIServer

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'```(\w+)(?: title="(.*?)")?\n(.*?)```', re.DOTALL)
SECONDS = re.compile(r"\d+\.\d s\b")
HOST = "http://127.0.0.1:8020"
OLLAMA = "http://localhost:11434"
SERVERS = {"serve": [], "ui": ["--no-browser"]}
"""The commands that run until Ctrl-C -> what a test adds."""


@dataclass
class Reader:
    """Somebody who follows a page in an empty folder, with the tests' PostgreSQL."""

    folder: Path
    postgres_url: str
    url: str = HOST
    workspace: str = ""
    models: dict[str, str] = field(default_factory=dict)
    """The name of a project -> the address of its chat model."""
    read_files: list[str] = field(default_factory=list)
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def follow(self, page: str) -> None:
        """Do what each block of the page says, and compare what came of the commands before."""
        output = ""
        for language, title, text in BLOCK.findall(page):
            if language == "sh":
                exit_code = int(title.removeprefix("exit code ") or 0)
                output = "".join(self.execute(line, exit_code) for line in text.splitlines())
            elif language == "text":
                shown = text.replace("'default'", f"'{self.workspace}'")
                assert_shows(shown.replace('"default"', f'"{self.workspace}"'), output)
            elif title.endswith("settings.yaml"):
                self.replace_line(self.folder / title, text)
            else:
                (self.folder / title).write_text(text, "utf-8")

    def execute(self, line: str, exit_code: int) -> str:
        """Return the output of a line. ``exit_code``: of a command of graphmill."""
        if not line.startswith("graphmill "):
            return self.execute_in_shell(line)
        arguments = shlex.split(line)[1:]
        if arguments[-1] in SERVERS:
            return self.start(arguments)
        project = arguments[1]
        env = {"OPENAI_BASE_URL": self.models[project]} if project in self.models else {}
        done = ProjectFolder(self.folder, env).invoke(*arguments)
        assert done.exit_code == exit_code, done
        if arguments[0] == "init":
            self.use_postgres_of_tests(self.folder / arguments[1])
        # A run tells its steps on stderr, and then its sum on stdout.
        told = done.stderr + done.stdout
        # Commands in this process are told the folder, which a reader is in.
        told = told.replace(f"{self.folder}/", "")
        return told.replace(self.models.get("with-ollama", OLLAMA), OLLAMA)

    def execute_in_shell(self, line: str) -> str:
        """Run a line as a terminal does that has read the files of the lines before."""
        if line.startswith(". "):
            self.read_files.append(line.replace(". ", ". ./", 1))
            return ""
        script = "\n".join([*self.read_files, line.replace(HOST, self.url)])
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def start(self, arguments: list[str]) -> str:
        """Start a server on a free port, and return its first line as on the usual port."""
        command = arguments[-1]
        line = ProjectFolder(self.folder).command_line(*arguments, *SERVERS[command])
        process = subprocess.Popen(
            [*line, "--port", "0"], cwd=self.folder, stderr=subprocess.PIPE, text=True
        )
        self.servers.append(process)
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert found, first
        self.url = found[0]
        return first.replace(self.url, HOST)

    def use_postgres_of_tests(self, project: Path) -> None:
        """Edit lines alone, since the page edits the same file by lines."""
        path = project / "settings.yaml"
        text = path.read_text("utf-8")
        assert text.count("url: embedded") == 1
        path.write_text(text.replace("url: embedded", f"url: {self.postgres_url}"), "utf-8")
        self.workspace = workspace_of(project)
        self.replace_line(path, f"workspace: {self.workspace}\n")

    def replace_line(self, path: Path, text: str) -> None:
        """Put the text in place of the one line that begins with its first key, indented as it."""
        key = text.partition(":")[0]
        lines = re.compile(rf"^{key}:.*\n", re.MULTILINE)
        before = path.read_text("utf-8")
        assert len(lines.findall(before)) == 1
        path.write_text(lines.sub(lambda _: text, before), "utf-8")

    def press_ctrl_c(self) -> None:
        for process in self.servers:
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=60)
            assert process.returncode == 130, log
            assert log.endswith("graphmill: stopped serving\n")


@pytest.fixture
def reader(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, postgres_url)
    yield reader
    for process in reader.servers:
        with process:
            process.kill()


def assert_shows(shown: str, output: str) -> None:
    """Check that the output has the lines that are shown, in order, and others only between them.

    "..." stands for any text. Seconds are not compared.
    """
    rest = SECONDS.sub("0.0 s", output)
    for piece in re.split(r"\.\.\.|\n", SECONDS.sub("0.0 s", shown)):
        wanted = piece.strip()
        if wanted:
            before, found, rest = rest.partition(wanted)
            assert found, f"{wanted!r} is not in {before!r}"


@pytest.mark.parametrize(
    "name",
    [
        "first-graph",
        "own-verb",
        "own-ontology",
        pytest.param(
            "serve-team",
            marks=pytest.mark.skipif(
                not (shutil.which("curl") and shutil.which("openssl")),
                reason="no curl or no openssl",
            ),
        ),
    ],
)
def test_the_commands_of_a_tutorial_give_what_it_shows(name: str, reader: Reader):
    reader.follow((DOCS / f"{name}.md").read_text("utf-8"))
    reader.press_ctrl_c()


def test_the_commands_with_a_model_give_what_the_tutorial_shows(
    reader: Reader, openai: OpenAIServer
):
    openai.key = "sk-..."
    with ollama_server() as ollama:
        ollama.models = {"qwen2.5:7b": 32_768}
        reader.models = {"with-ollama": ollama.address, "with-openai": openai.base_url}
        reader.follow((DOCS / "with-a-model.md").read_text("utf-8"))
        assert ollama.chats


def test_output_in_another_order_is_not_what_is_shown():
    assert_shows("a 1.0 s\n...\nc\n", "a 2.5 s\nb\nc\n")
    with pytest.raises(AssertionError, match="'a' is not in"):
        assert_shows("c\n...\na\n", "a\nb\nc\n")
