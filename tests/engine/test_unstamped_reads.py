"""A verb that reads a file and declares no stamp is refused, whatever it reads the file with."""

from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import UnstampedReadError
from tests.projects import ProjectFolder, project_with_verb

DOCUMENTS = {f"{number}.txt": f"Mira Vale saw light {number}." for number in range(6)}
VERB = """
import os, sqlite3, subprocess, tempfile, threading
from pathlib import Path
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pipeline import Params, Tokenizer, verb
from pipeline.contract.schemas import STRING, TEXT_UNITS, table

PRICES = table("id", id=STRING, price=STRING)
HERE = Path(__file__).parent


def digest_of_prices(params: Params) -> str:
    return (HERE / "prices.csv").read_text()


@verb(inputs={"text_units": TEXT_UNITS}, outputs={"prices": PRICES}, DECLARED)
def add_prices(text_units: pd.DataFrame, params: Params = Params(), ROLES) -> pd.DataFrame:
    price = "1"
    BODY
    return pd.DataFrame({"id": text_units["id"], "price": str(price)})
"""
OPEN = 'with open(HERE / "prices.csv") as file: price = file.read()'
READERS = {
    "open": OPEN,
    "os.open": 'os.close(os.open(HERE / "prices.csv", os.O_RDONLY))',
    "pathlib": 'price = (HERE / "prices.csv").read_text()',
    "pandas": 'price = pd.read_csv(HERE / "prices.csv")["price"][0]',
    "numpy": 'price = np.fromfile(HERE / "prices.csv", "u1")[0]',
    "parquet by pandas": 'price = pd.read_parquet(HERE / "prices.parquet")["price"][0]',
    "parquet by pyarrow": 'price = pq.read_table(HERE / "prices.parquet").num_rows',
    "sqlite": 'sqlite3.connect(HERE / "prices.db").close()',
    "sqlite by address": 'sqlite3.connect(f"file:{HERE}/prices.db?mode=ro", uri=True).close()',
    "a thread": f"""def look():
        {OPEN}
    thread = threading.Thread(target=look)
    thread.start(); thread.join()""",
    "a file that may be missing": """try:
        open(HERE / "none.csv")
    except FileNotFoundError:
        pass""",
    "a program": 'price = subprocess.run(["cat", HERE / "prices.csv"], capture_output=True).stdout',
}
HARMLESS = {
    "an import": "import colorsys, xml.dom.minidom, http.cookiejar",
    "a temporary file": """with tempfile.NamedTemporaryFile("w+") as file:
        file.write("2"); file.flush()
        with open(file.name) as again: price = again.read()""",
    "a file that it writes": 'with open(HERE / "log.txt", "a") as file: file.write("done")',
    "a line of code, as warnings show it": "import linecache; linecache.getline(__file__, 1)",
    "a time zone": 'price = pd.Timestamp("2024-01-01", tz="Europe/Oslo")',
    "a database in memory": 'sqlite3.connect(":memory:").close()',
    "an installed package's file": """import certifi
    open(certifi.where()).close()""",
    "a library that starts a program": "import ctypes.util; ctypes.util.find_library('m')",
}


def with_verb(
    root: Path, body: str, declared: str = 'rowwise="text_units"', roles: str = ""
) -> ProjectFolder:
    source = VERB.replace("BODY", body).replace("DECLARED", declared).replace("ROLES", roles)
    folder = project_with_verb(root, DOCUMENTS, source, "add_prices")
    (folder.root / "prices.csv").write_text("price\n7\n", encoding="utf-8")
    pd.DataFrame({"price": [7]}).to_parquet(folder.root / "prices.parquet")
    (folder.root / "prices.db").touch()
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_a_verb_without_a_stamp_that_reads_a_file_is_refused(tmp_path: Path, reader: str):
    folder = with_verb(tmp_path / "p", READERS[reader])
    with folder.open() as project, pytest.raises(UnstampedReadError) as raised:
        project.index("fast")
    said = str(raised.value)
    assert said.startswith("step 'add_prices': verb 'add_prices' (own.py:")
    fact = "starts the program 'cat'" if reader == "a program" else "reads the file "
    assert fact in said
    assert "declare a stamp" in said


def test_the_command_names_the_file_the_line_and_what_to_do(tmp_path: Path):
    folder = with_verb(tmp_path / "p", OPEN)
    line = (folder.root / "own.py").read_text().splitlines().index(f"    {OPEN}") + 1
    said = folder.invoke("index", "fast")
    assert said.exit_code == 1
    assert said.stderr.rstrip().endswith(
        f"step 'add_prices': verb 'add_prices' (own.py:{line}) reads the file"
        f" {folder.root / 'prices.csv'}, and declares no stamp, so that an edit of it would change"
        " nothing; declare a stamp, pass the content in a param, or read it by a source verb with a"
        " stamp (docs/verbs.md)"
    )


@pytest.mark.parametrize("action", HARMLESS)
def test_a_verb_that_reads_no_file_of_the_user_is_accepted(tmp_path: Path, action: str):
    with with_verb(tmp_path / "p", HARMLESS[action]).open() as project:
        project.index("fast")
        assert len(project.table("prices", "fast")) == len(DOCUMENTS)


def test_a_verb_whose_role_reads_a_file_is_accepted(tmp_path: Path):
    body = "price = tokenizer.count(text_units['text'].iloc[0]) if len(text_units) else 0"
    with with_verb(tmp_path / "p", body, roles="*, tokenizer: Tokenizer").open() as project:
        project.index("fast")
        assert set(project.table("prices", "fast")["price"]) == {"8"}


def test_a_verb_with_a_stamp_may_read_and_runs_again_after_an_edit(tmp_path: Path):
    declared = 'rowwise="text_units", stamp=digest_of_prices'
    folder = with_verb(tmp_path / "p", READERS["pandas"], declared)
    with folder.open() as project:
        project.index("fast")
        (folder.root / "prices.csv").write_text("price\n8\n", encoding="utf-8")
        project.index("fast")
        assert set(project.table("prices", "fast")["price"]) == {"8"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_verb_is_refused_in_buckets_too_here_and_in_other_processes(tmp_path: Path, workers: int):
    declared = 'rowwise="text_units", row_of={"prices": "id"}'
    folder = with_verb(tmp_path / "p", OPEN, declared)
    settings = f"engine.workers={workers}", "engine.task_rows=2"
    with folder.open(*settings) as project, pytest.raises(UnstampedReadError):
        project.index("fast")


def test_check_laws_finds_a_verb_that_reads_although_its_last_run_did_not(tmp_path: Path):
    folder = with_verb(tmp_path / "p", "pass")
    with folder.open() as project:
        project.index("fast")
    own = folder.root / "own.py"
    own.write_text(own.read_text().replace("    pass\n", f"    {OPEN}\n"), encoding="utf-8")
    with folder.open() as project:
        found = project.check_laws("fast")
    assert [held.verdict for held in found] == ["source", "holds", "breaks"]
    assert "prices.csv, and declares no stamp" in found[2].message
