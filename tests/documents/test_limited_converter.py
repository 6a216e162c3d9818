"""A file that hangs, fills or ends its converter costs itself alone; no process outlives the one
that started it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pipeline.contract.conversion import (
    Conversion,
    ConversionRules,
    Converted,
    FileToConvert,
    NotConverted,
    OwnConverters,
    own_converters,
)
from pipeline.documents import limited_converter
from pipeline.documents.converter_process import RESULT, Wanted, result_of
from pipeline.documents.limited_converter import LimitedConverter, converter_name
from pipeline.errors import SettingsError

OWN = """
import os, time

def shout(path):
    said = path.read_text()
    if said == "sleep":
        time.sleep(1000)
    while said == "spin":
        pass
    if said == "fill":
        filled = []
        while True:
            filled.append(bytearray(10_000_000))
    if said == "abort":
        os.abort()
    if said == "stumble":
        raise KeyError("Root")
    if said == "number":
        return 3
    if said == "print":
        print("noise " * 100_000)
    return said.upper()
"""
HOSTILE = {
    "sleep": "too_slow",
    "spin": "too_slow",
    "fill": "too_much_memory",
    "abort": "crashed",
    "stumble": "parse",
    "number": "parse",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def rules(
    folder: Path, own: OwnConverters = "own.py:shout", seconds: float = 5, megabytes: int = 300
) -> ConversionRules:
    return ConversionRules(seconds, megabytes, own_converters(own), str(folder))


def files(folder: Path, *said: str) -> list[FileToConvert]:
    for word in said:
        (folder / f"{word}.pdf").write_text(word)
    return [FileToConvert(folder / f"{word}.pdf", word) for word in said]


def outcomes(found: list[Converted]) -> list[str]:
    return [one.text if isinstance(one, Conversion) else one.reason for one in found]


def test_no_file_hinders_another(folder: Path):
    wanted = files(folder, "one", *HOSTILE, "two", "print", "three")
    found = LimitedConverter().convert(wanted, rules(folder, seconds=3))
    assert outcomes(found) == ["ONE", *HOSTILE.values(), "TWO", "PRINT", "THREE"]
    messages = [one.message for one in found if isinstance(one, NotConverted)]
    assert all(";" in message for message in messages)
    assert "3 s" in messages[0]
    assert "300 MB" in messages[2]
    assert "SIGABRT" in messages[3]


@pytest.mark.parametrize(
    "said", ["None, ''", "'', '', None", "'', '', '', ('a',)", "'', '', '', (), {1: object()}"]
)
def test_a_conversion_of_the_wrong_types_is_a_reject_of_its_file(folder: Path, said: str):
    (folder / "own.py").write_text(
        "from pipeline.contract.conversion import Conversion\ndef make(path):\n    text ="
        f" path.read_text()\n    return Conversion({said}) if text == 'bad' else 'lone \\ud800"
        " surrogate'\n"
    )
    found = LimitedConverter().convert(files(folder, "bad", "good"), rules(folder, "own.py:make"))
    assert outcomes(found) == ["parse", "lone  surrogate"]
    assert "cannot be kept" in str(found[0])


def test_a_file_is_not_blamed_for_the_memory_of_an_earlier_one(folder: Path):
    """Check a process that has converted before and has no memory left."""
    (folder / "own.py").write_text(
        "kept = []\ndef hold(path):\n    kept.append(bytearray(100_000_000))\n    return"
        " path.read_text()\n"
    )
    names = [f"file {number}" for number in range(6)]
    found = LimitedConverter(processes=1).convert(
        files(folder, *names), rules(folder, "own.py:hold")
    )
    assert outcomes(found) == names


@pytest.mark.parametrize(
    "error",
    [
        'OSError(12, "Cannot allocate memory")',
        'ImportError("a.so: failed to map segment from shared object")',
    ],
)
def test_a_failed_allocation_is_reported_as_too_much_memory(tmp_path: Path, error: str):
    """Else the file would not be tried with all of the memory, and no one told to raise the
    limit."""
    (tmp_path / "own.py").write_text(f"def convert(path):\n    raise {error}\n")
    wanted = Wanted(
        path=str(tmp_path / "a.pdf"), own="own.py:convert", folder=str(tmp_path), name="own"
    )
    result = result_of(wanted, 5)
    assert isinstance(result, NotConverted)
    assert result.reason == "too_much_memory"


def test_files_that_need_much_of_the_memory_are_converted_one_at_a_time(folder: Path):
    (folder / "own.py").write_text(
        "import os, time\n"
        "def hold(path):\n"
        "    held = bytearray(200_000_000)\n"
        "    (path.parent / f'{path.stem}.on').touch()\n"
        "    time.sleep(0.5)\n"
        "    alone = len(list(path.parent.glob('*.on'))) == 1\n"
        "    (path.parent / f'{path.stem}.on').unlink()\n"
        "    return str(alone)\n"
    )
    found = LimitedConverter(processes=3).convert(
        files(folder, "a", "b", "c"), rules(folder, "own.py:hold", seconds=20)
    )
    assert outcomes(found) == ["True"] * 3


def test_a_command_converts_within_the_same_limits(folder: Path):
    script = (
        'import sys, time; said = open(sys.argv[1]).read(); said == "sleep" and time.sleep(1000); '
    )
    script += 'said == "fail" and sys.exit("no such page"); print(said * 2)'
    own = rules(folder, (sys.executable, "-c", script, "{file}"), seconds=3)
    found = LimitedConverter().convert(files(folder, "one", "sleep", "fail"), own)
    assert outcomes(found) == ["oneone\n", "too_slow", "parse"]
    assert isinstance(found[2], NotConverted)
    assert (
        "ended with 1 (no such page); mend the file, or the command and 'graphmill retry'"
        in found[2].message
    )
    assert converter_name(".pdf", own) == Path(sys.executable).name


def test_an_own_converter_may_be_for_one_suffix_and_return_a_conversion(folder: Path):
    (folder / "own.py").write_text(
        "from pipeline.contract.conversion import Conversion\ndef scan(path):\n    return"
        " Conversion('text', 'scanner 2', 'Title', (0, 2), {'camera': 'x'})\n"
    )
    (folder / "a.rtf").write_text("")
    wanted = [FileToConvert(folder / "a.rtf", "a.rtf")]
    found = LimitedConverter().convert(wanted, rules(folder, {"RTF": "own.py:scan"}))
    assert found == [Conversion("text", "scanner 2", "Title", (0, 2), {"camera": "x"})]
    assert RESULT.validate_json(RESULT.dump_json(found[0])) == found[0]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("gone.py:f", "no such file"),
        (("no-such-command", "{file}"), "no command 'no-such-command'"),
    ],
)
def test_a_missing_converter_is_an_error_before_any_conversion(
    folder: Path, own: OwnConverters, message: str
):
    with pytest.raises(SettingsError, match=message):
        LimitedConverter().convert(files(folder, "one"), rules(folder, own))


@pytest.mark.parametrize("own", ["own.py", ":f", ("cat",), {"pdf": "own.py"}])
def test_an_invalid_converter_is_refused(own: OwnConverters):
    with pytest.raises(ValueError, match=r"add it|write file"):
        own_converters(own)


@pytest.mark.parametrize(
    "own", ["read --key hunter2 {file}", ("read", "--key", "hunter2"), {"pdf": ("hunter2",)}]
)
def test_the_error_does_not_show_the_refused_value(own: OwnConverters):
    with pytest.raises(ValueError, match=r"add it|write file") as raised:
        own_converters(own)
    assert "hunter2" not in str(raised.value)


def test_without_the_extra_no_process_is_started(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limited_converter, "converter_for", lambda suffix, articles: "")
    monkeypatch.setattr(limited_converter, "_Process", None)
    assert outcomes(LimitedConverter().convert(files(folder, "one"), ConversionRules())) == [
        "needs_docs"
    ]


def test_a_missing_file_is_a_transient_error(folder: Path):
    wanted = Wanted(path=str(folder / "gone.pdf"), own="own.py:shout", folder=str(folder))
    assert outcomes([result_of(wanted, 100)]) == ["io_error"]
    (folder / "stumble.pdf").write_text("stumble")
    stumbles = result_of(wanted.model_copy(update={"path": str(folder / "stumble.pdf")}), 100)
    assert stumbles == NotConverted("parse", "'Root' is missing; mend it or remove it")


SCRIPT = """
import sys
from pathlib import Path
from pipeline.contract.conversion import ConversionRules, FileToConvert
from pipeline.documents.limited_converter import LimitedConverter
print("started", flush=True)
own = {"": ("sh", "-c", sys.argv[2], "{file}")} if sys.argv[2] else {"": "own.py:shout"}
files = [FileToConvert(Path(sys.argv[1], f"{word}.pdf"), word) for word in ("sleep", "spin")]
LimitedConverter(processes=2).convert(files, ConversionRules(1000, 300, own, sys.argv[1]))
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize(
    ("command", "processes"), [("", 2), ("sleep 1000; true", 6)], ids=["function", "command"]
)
def test_no_process_outlives_the_one_that_started_it(
    folder: Path, ending: signal.Signals, command: str, processes: int
):
    """Check this for the processes of a command too."""
    files(folder, "sleep", "spin")
    with started([sys.executable, "-c", SCRIPT, str(folder), command]) as process:
        below = wait_for(process, at_least=processes + 2)  # two of them look after the others
        process.send_signal(ending)
        process.wait(30)
        _, alive = psutil.wait_procs(below, timeout=30)
        assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], at_least: int) -> list[psutil.Process]:
    """Wait until the process has so many descendants, and return them."""
    assert process.stdout
    assert process.stdout.readline() == "started\n"
    while process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        if len(below) >= at_least:
            return below
    raise AssertionError("it has ended")
