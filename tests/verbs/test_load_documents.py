import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from pydantic import ValidationError

from pipeline.contract.schemas import DOCUMENTS, REJECTS
from pipeline.documents.conversion import NEEDS_EXTRA
from pipeline.engine.losses import count_no_input
from pipeline.errors import SettingsError
from pipeline.text.ids import digest, document_id
from pipeline.verbs.chunk_documents import chunk_documents
from pipeline.verbs.load_documents import LoadParams, input_digest, load_documents
from tests.documents.legacy import RUSSIAN

TEXT = "# The mill\n\nIt stands by the river. 磨坊在河边。\n"


def load(folder: Path, **params: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    documents, rejects = load_documents(LoadParams.model_validate({"path": str(folder), **params}))
    DOCUMENTS.encode(documents, "documents")
    REJECTS.encode(rejects, "rejects")
    return documents, rejects


def reasons(rejects: pd.DataFrame) -> dict[str, str]:
    return dict(zip(rejects["row_id"], rejects["reason"], strict=True))


def test_a_text_file_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mill.md").write_text(TEXT, encoding="utf-8")
    documents, rejects = load(tmp_path)
    assert rejects.empty
    assert documents["aliases"].map(len).tolist() == [0]
    assert documents.drop(columns="aliases").to_dict("records") == [
        {
            "id": document_id("sub/mill.md"),
            "title": "The mill",
            "text": TEXT,
            "source": "sub/mill.md",
            "metadata": "{}",
            "content_hash": digest("The mill", TEXT, "{}"),
            "title_from": "heading",
            "date": "",
            "date_from": "",
        }
    ]


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.txt", "\n The mill \n\nIt stands.", "The mill"),
        ("a.txt", "# of mills: 3", "of mills: 3"),
        ("a.md", "Intro line\n\n## Deep heading ##\n", "Deep heading"),
        ("a.md", "No heading", "No heading"),
        ("long-line.txt", "word " * 100, "long-line"),
        ("rule.md", "---\n" + "word " * 100, "rule"),
        ("rule.txt", "* * *\n\n--\nThe mill\n", "The mill"),
    ],
)
def test_the_title_is_found_in_the_text_or_the_name_of_the_file(
    tmp_path: Path, name: str, text: str, title: str
) -> None:
    (tmp_path / name).write_text(text)
    assert load(tmp_path)[0]["title"].tolist() == [title]


def test_an_edited_file_keeps_its_id_and_a_moved_folder_all_of_them(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "a.txt").write_text("one")
    before = load(first)[0]
    (first / "a.txt").write_text("two")
    after = load(first.rename(tmp_path / "second"))[0]
    assert before["id"].tolist() == after["id"].tolist()
    assert before["content_hash"].tolist() != after["content_hash"].tolist()


def test_files_of_equal_content_are_two_documents(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("same")
    documents, rejects = load(tmp_path)
    assert documents["id"].nunique() == 2
    assert documents["content_hash"].nunique() == 1
    assert rejects.empty


def test_records_of_csv_json_and_jsonl(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,title,text,year\n7,Mill,It stands.,1931\n")
    (tmp_path / "b.json").write_text(
        '[{"text": "One.", "id": 7}, {"text": "Two.", "tags": ["é"], "b": 1}]'
    )
    (tmp_path / "c.jsonl").write_text('{"id": "x", "text": "Three."}\n')
    documents, rejects = load(tmp_path)
    assert rejects.empty
    by_source = {row["source"]: row for row in documents.to_dict("records")}
    mill = by_source["a.csv#7"]
    assert (mill["id"], mill["title"], mill["text"]) == (
        document_id("a.csv#7"),
        "Mill",
        "It stands.",
    )
    assert mill["metadata"] == '{"year": "1931"}'
    assert by_source["b.json#7"]["title"] == "One."
    assert by_source["c.jsonl#x"]["id"] == document_id("c.jsonl#x")
    (unnamed,) = (
        source for source in by_source if source not in ("a.csv#7", "b.json#7", "c.jsonl#x")
    )
    assert unnamed.startswith("b.json#")
    assert by_source[unnamed]["metadata"] == '{"b": 1, "tags": ["é"]}'


def test_records_without_an_id_are_known_by_their_content(tmp_path: Path) -> None:
    rows = [{"text": "same"}, {"text": "same"}, {"text": "other"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    before = load(tmp_path)[0]
    assert before["id"].is_unique
    assert before["source"].is_unique
    rows.insert(0, {"text": "new"})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert set(before["id"]) < set(load(tmp_path)[0]["id"])


def test_columns_are_chosen_by_params(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,head,body,id\nk,Head,Body,5\n")
    documents, _ = load(tmp_path, id_column="key", title_column="head", text_column="body")
    assert documents[["source", "title", "text", "metadata"]].values.tolist() == [
        ["a.csv#k", "Head", "Body", '{"id": "5"}']
    ]


def test_a_pattern_chooses_files_and_hidden_ones_are_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", "b.md", ".hidden.txt", ".DS_Store", "Thumbs.db"):
        (tmp_path / name).write_text("text")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c.txt").write_text("text")
    documents, rejects = load(tmp_path)
    assert sorted(documents["source"]) == ["a.txt", "b.md"]
    assert rejects.empty
    assert load(tmp_path, file_pattern="*.md")[0]["source"].tolist() == ["b.md"]


def test_bad_input_becomes_rejects(tmp_path: Path) -> None:
    files = {
        "zero.txt": b"",
        "blank.md": b"\xef\xbb\xbf \n",
        "binary.txt": bytes(range(256)) * 4,
        "picture.png": b"\x89PNG",
        "none": b"text",
        "broken.json": b"{",
        "header.csv": b"a,b\n1,2\n",
        "lines.jsonl": (
            b'{"text": "good"}\n{bad\n"text"\n{"text": " "}\n{"text": ["x"]}\n{"id": 1}\n'
        ),
        "twice.jsonl": b'{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n',
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    documents, rejects = load(tmp_path)
    assert sorted(documents["text"]) == ["a", "good"]
    assert reasons(rejects) == {
        "zero.txt": "empty",
        "blank.md": "empty",
        "binary.txt": "encoding",
        "picture.png": "unsupported",
        "none": "unsupported",
        "broken.json": "parse",
        "header.csv": "parse",
        "lines.jsonl": "in_part",
        "lines.jsonl:2": "parse",
        "lines.jsonl:3": "parse",
        "lines.jsonl:4": "empty",
        "lines.jsonl:5": "parse",
        "lines.jsonl:6": "empty",
        "twice.jsonl:2": "duplicate_id",
    }
    assert dict(zip(rejects["row_id"], rejects["kind"], strict=True)) == {
        "zero.txt": "skipped",
        "blank.md": "skipped",
        "binary.txt": "source",
        "picture.png": "skipped",
        "none": "skipped",
        "broken.json": "source",
        "header.csv": "source",
        "lines.jsonl": "source",
        "lines.jsonl:2": "row",
        "lines.jsonl:3": "row",
        "lines.jsonl:4": "skipped",
        "lines.jsonl:5": "row",
        "lines.jsonl:6": "skipped",
        "twice.jsonl:2": "row",
    }
    assert all(
        message.startswith(place)
        for place, message in zip(rejects["row_id"], rejects["message"], strict=True)
    )
    assert all(";" in message for message in rejects["message"])


@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".html"])
def test_a_document_that_needs_the_extra_says_so(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pipeline.documents.limited_converter.converter_for", lambda suffix, articles: ""
    )
    (tmp_path / f"a{suffix}").write_bytes(b"<p>text</p>")
    _, rejects = load(tmp_path)
    assert rejects["reason"].tolist() == ["needs_docs"]
    assert rejects["message"].iloc[0].endswith(NEEDS_EXTRA)
    assert count_no_input(rejects) == {f"{suffix[1:]} (needs the extra 'docs')": 1}


@pytest.mark.skipif(find_spec("markitdown") is None, reason="the extra 'docs' is not installed")
def test_the_extra_reads_more_and_damaged_files_are_rejects(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html><body><h1>The mill</h1><p>It stands.</p></body></html>")
    (tmp_path / "b.docx").write_bytes(b"PK damaged")
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.4 damaged")
    documents, rejects = load(tmp_path)
    assert documents["title"].tolist() == ["The mill"]
    assert reasons(rejects) == {"b.docx": "parse", "c.pdf": "parse"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_may_not_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "a.txt").write_text("text")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in.txt").symlink_to(folder / "a.txt")
    (folder / "gone.txt").symlink_to(folder / "nothing.txt")
    documents, rejects = load(folder)
    assert sorted(documents["source"]) == ["a.txt", "in.txt"]
    assert reasons(rejects) == {"gone.txt": "unreadable", "out.txt": "outside", "up": "outside"}


@pytest.mark.skipif(sys.platform == "win32", reason="no permission bits and pipes there")
def test_a_file_that_cannot_be_read_is_a_reject(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    expected = {"pipe.txt": "unreadable"}
    if os.geteuid() != 0:
        (tmp_path / "locked.txt").write_text("text")
        (tmp_path / "locked.txt").chmod(0)
        expected["locked.txt"] = "unreadable"
    assert reasons(load(tmp_path)[1]) == expected
    assert input_digest(LoadParams(path=str(tmp_path)))


def test_a_file_over_the_limit(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_bytes(b"a" * (2**20 + 1))
    assert reasons(load(tmp_path, max_file_mb=1)[1]) == {"big.txt": "too_large"}


def test_one_text_in_any_encoding_gives_the_same_text_units(tmp_path: Path) -> None:
    texts = {
        "磨坊主的女儿整夜没有睡，她听见水轮在转动。": [
            "utf-8",
            "utf-8-sig",
            "utf-16",
            "utf-32",
            "gb18030",
        ],
        "灯台守の娘は、夜になると静かに海を見ていた。": ["utf-8", "utf-16", "shift_jis"],
        "Le garçon naïf dîne à Noël, près de l'élégante façade.": [
            "utf-8",
            "utf-16-le",
            "utf-16-be",
            "cp1252",
        ],
    }
    for text, encodings in texts.items():
        units = set()
        for encoding in encodings:
            (tmp_path / "a.txt").write_bytes(text.encode(encoding))
            documents, rejects = load(tmp_path)
            assert set(rejects["reason"]) <= {"encoding_guessed"}
            units.add(tuple(chunk_documents(documents)["id"]))
        assert len(units) == 1


def test_text_is_cleaned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\x00\r\ntwo\rthree")
    (tmp_path / "b.jsonl").write_text(
        '{"id": "\\u0000", "text": "x\\ud800y\\u0000", "m\\ud800": ["\\udfff"]}\n'
    )
    documents, rejects = load(tmp_path)
    assert rejects.empty
    assert sorted(documents["text"]) == ["one\ntwo\nthree", "xy"]
    assert '{"m": [""]}' in documents["metadata"].tolist()


def test_an_empty_folder_gives_empty_tables(tmp_path: Path) -> None:
    documents, rejects = load(tmp_path)
    assert documents.columns.tolist() == DOCUMENTS.columns
    assert len(documents) == len(rejects) == 0


def test_a_missing_folder_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no such folder; create it or set input\.path"):
        load(tmp_path / "nothing")
    (tmp_path / "file").write_text("text")
    with pytest.raises(SettingsError, match="not a folder"):
        input_digest(LoadParams(path=str(tmp_path / "file")))


@pytest.mark.parametrize(
    "params",
    [
        {"file_pattern": "../*"},
        {"file_pattern": "/etc/*"},
        {"file_pattern": ""},
        {"encoding": "klingon"},
    ],
)
def test_invalid_params_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LoadParams.model_validate(params)


def test_input_digest_follows_names_and_contents_only(tmp_path: Path) -> None:
    params = LoadParams(path=str(tmp_path), file_pattern="*.txt")
    seen = [input_digest(params)]
    for change in (
        lambda: (tmp_path / "a.txt").write_text("one"),
        lambda: (tmp_path / "a.txt").write_text("two"),
        lambda: (tmp_path / "a.txt").rename(tmp_path / "b.txt"),
        lambda: (tmp_path / "c.txt").write_text("two"),
    ):
        change()
        seen.append(input_digest(params))
    assert len(set(seen)) == len(seen)
    (tmp_path / "ignored.md").write_text("three")
    os.utime(tmp_path / "b.txt", (1, 1))
    assert input_digest(params) == seen[-1]


def test_a_guessed_encoding_is_reported_and_noise_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes(RUSSIAN.encode("cp1251"))
    (tmp_path / "short.txt").write_bytes("Лев Толстой родился".encode("cp1251"))
    (tmp_path / "noise.txt").write_bytes(bytes(range(0x80, 0x100)) * 3)
    documents, rejects = load(tmp_path)
    assert dict(zip(documents["source"], documents["text"], strict=True)) == {
        "long.txt": RUSSIAN,
        "short.txt": "Лев Толстой родился",
    }
    told = rejects[["row_id", "kind", "reason"]].to_numpy().tolist()
    assert sorted(told) == [
        ["noise.txt", "source", "encoding"],
        ["short.txt", "recovered", "encoding_guessed"],
    ]
    assert "read as cp1251" in rejects["message"].str.cat()
