"""The sub-steps of load_documents: the rows of a file depend on its name and content alone."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipeline.contract.registry import REGISTRY
from pipeline.verbs.load_documents import FILES, LoadParams, find_files, read_files
from tests.held_laws import Lawful, groups_of, hold_night, hold_split
from tests.sizes import size

CONTENTS = {
    b"A letter.": "letter",
    b"": "empty",
    b"\xff\xfe\x00": "no text",
    b"id,text\n1,One\n2,Two\n": "csv",
    b"id,text\n2,Zwei\n2,Again\n3,\n": "csv with an id twice",
    b'id,text\n1,"The judge said "no" to it"\n': "bad csv",
    b"Caf\xe9 au lait, d\xe9j\xe0 vu, na\xefve \xe9l\xe8ve": "a guess",
    b'[{"id": "2", "text": "Two."}, {"id": "2.txt", "text": "Point."}, {"te': "array cut off",
}
NAMES = [
    "a.csv",
    "a.csv#2",
    "a.csv#2.txt",
    "a:1.txt",
    "a:2.txt",
    "b.txt",
    "c.json",
    "c.json#2.txt",
    "d.png",
    "e/a.csv",
]
FOLDERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(CONTENTS)), max_size=8)
held = settings(max_examples=size(40, 1000), phases=(Phase.reuse, Phase.generate), deadline=None)
Files = Mapping[str, bytes]


def written(folder: Path, files: Files) -> LoadParams:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return LoadParams(path=str(folder)).with_listing()


def tables_of(files: Files) -> dict[str, pd.DataFrame]:
    with TemporaryDirectory() as folder:
        return {"files": find_files(written(Path(folder), files))}


def lawful(*folders: Files) -> Lawful:
    """Return read_files as it reads the files of a table from a folder that has no others."""
    verb = REGISTRY.verbs["load_documents"]
    assert verb.parts
    part = verb.parts(LoadParams())[1]
    assert part.law
    rows = [tables_of(files)["files"] for files in folders]
    known = {
        (name, content): files[name]
        for files, table in zip(folders, rows, strict=True)
        for name, content in zip(table["name"], table["content"], strict=True)
    }

    def call(tables: Mapping[str, pd.DataFrame]) -> dict[str, pa.Table]:
        wanted = zip(tables["files"]["name"], tables["files"]["content"], strict=True)
        with TemporaryDirectory() as folder:
            params = written(Path(folder), {name: known[name, content] for name, content in wanted})
            frames = part.call(tables, {"params": params})
        return {name: schema.encode(frames[name], name) for name, schema in part.outputs.items()}

    return Lawful("read_files", part.law, {"files": FILES}, call)


@held
@given(data=st.data(), before=FOLDERS, now=FOLDERS)
def test_reading_obeys_its_law(data: st.DataObject, before: Files, now: Files):
    one = lawful(before, now)
    then, tables = tables_of(before), tables_of(now)
    groups = data.draw(st.sets(st.sampled_from(groups_of(one.law, then) or [""])), "groups")
    hold_split(one, then, groups)
    hold_night(one, then, tables)


def test_reading_some_files_gives_the_same_rows_as_reading_all(tmp_path: Path):
    params = written(
        tmp_path,
        {"a.csv": b"id,text\n2.txt,Two\n3,Three\n", "a.csv#2.txt": b"A file.", "b.txt": b"B."},
    )
    files = find_files(params)
    assert files["name"].tolist() == ["a.csv", "a.csv#2.txt", "b.txt"]
    documents, rejects = read_files(files[files["name"] != "b.txt"], params)
    assert sorted(documents["text"]) == ["Three", "Two"]
    assert rejects["reason"].tolist() == ["duplicate_id"]
    assert read_files(files[files["name"] == "b.txt"], params)[0]["text"].tolist() == ["B."]


def test_a_row_changes_with_what_is_read_and_with_what_reads_it(tmp_path: Path):
    params = written(tmp_path, {"a.txt": b"One.", "b.txt": b"Two."})
    before = find_files(params)
    assert find_files(written(tmp_path, {"a.txt": b"One."})).equals(before)
    after = find_files(written(tmp_path, {"b.txt": b"Drei."}))
    assert (after != before).any(axis=1).tolist() == [False, True]
    (tmp_path / "own.py").write_text("def read(path): ...")
    own = LoadParams(
        path=str(tmp_path),
        file_pattern="*.txt",
        converter={"txt": "own.py:read"},
        converter_folder=str(tmp_path),
    )
    assert find_files(own.with_listing())["converter"].str.startswith("own.py:read ").all()
