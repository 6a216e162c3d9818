"""The date of a document: where it is found, and which of several counts."""

import os
from pathlib import Path

import pandas as pd
import pytest

from pipeline.documents.dates import date_in_name, date_of_mail, date_of_property
from pipeline.verbs.load_documents import LoadParams, input_digest, load_documents

MAIL = "From: Ada <ada@example.com>\nDate: Fri, 3 May 2024 23:10:00 -0500\nSubject: Mill\n\nHello."


def load(folder: Path, **params: object) -> pd.DataFrame:
    documents, _ = load_documents(LoadParams.model_validate({"path": str(folder), **params}))
    return documents


def dates(folder: Path, **params: object) -> list[list[str]]:
    return load(folder, **params)[["date", "date_from"]].to_numpy().tolist()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", "---\ndate: 2024-05-03\n---\nText.", ["2024-05-03", "front_matter"]),
        ("a.md", "---\nDate: 3. Mai 2024\n---\nText.", ["2024-05-03", "front_matter"]),
        ("a.md", "---\ndate: soon\nupdated: May 2024\n---\nText.", ["2024-05", "front_matter"]),
        ("2023-01.md", "---\ndate: 2024\n---\nText.", ["2024", "front_matter"]),
        ("2023-01.md", "---\ndate: soon\n---\nText.", ["2023-01", "file_name"]),
        ("a.txt", MAIL, ["2024-05-03", "mail"]),
        ("a.txt", "Date: 2024-05-03\n\nNo mail.", ["", ""]),
        ("a.csv", "id,text,date\n1,Text.,05/2024\n", ["2024-05", "metadata"]),
        ("a.json", '[{"text": "Text.", "created": 2024}]', ["2024", "metadata"]),
        ("a.txt", "Text.", ["", ""]),
    ],
)
def test_the_best_origin_that_has_a_date_counts(
    tmp_path: Path, name: str, text: str, expected: list[str]
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert dates(tmp_path) == [expected]


def test_settings_order_and_leave_out_the_origins(tmp_path: Path):
    (tmp_path / "2023-01.md").write_text("---\nissued: 2024\n---\nText.", encoding="utf-8")
    named = {"date_fields": ["issued"]}
    assert dates(tmp_path, **named) == [["2024", "front_matter"]]
    order = ["file_name", "front_matter"]
    assert dates(tmp_path, dates_from=order, **named) == [["2023-01", "file_name"]]
    assert dates(tmp_path, dates_from=["mail"], **named) == [["", ""]]


def test_the_time_of_a_file_is_its_date_only_if_settings_say_so(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("Text.", encoding="utf-8")
    os.utime(file, (0, 1_714_737_600))
    assert dates(tmp_path) == [["", ""]]
    timed = LoadParams(path=str(tmp_path), dates_from=("file_time",))
    assert dates(tmp_path, dates_from=["file_time"]) == [["2024-05-03", "file_time"]]
    before = input_digest(timed)
    os.utime(file, (0, 1_714_737_600 + 86_400))
    assert input_digest(timed) != before


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("minutes 2024-05-03", "2024-05-03"),
        ("20240503_minutes", "2024-05-03"),
        ("03.05.2024 Protokoll", "2024-05-03"),
        ("minutes-2024-05", "2024-05"),
        ("policy-2024", "2024"),
        ("2024 budget", "2024"),
        ("2024", "2024"),
        ("model 2024 guide", ""),
        ("IMG_2031", ""),
        ("202405031234", ""),
        ("2024-13-01", ""),
        ("Minutes May 2024", "2024-05"),
        ("report_v2_may_2024", "2024-05"),
        ("Q1_march_2024", "2024-03"),
        ("ver 4.1 Mar 2022", "2022-03"),
        ("minutes-may-2024", "2024-05"),
        ("Protokoll_3._Mai_2024", "2024-05-03"),
        ("2024年5月3日 会议", "2024-05-03"),
        ("doc-3", ""),
    ],
)
def test_a_date_in_the_name_of_a_file_is_found(stem: str, expected: str):
    assert date_in_name(stem) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("D:20240503104500+02'00'", "2024-05-03"),
        ("D:2024", "2024"),
        ("2024-05-03T10:45:00Z", "2024-05-03"),
        ("2013-12-23T23:15:00Z", ""),
        ("D:19700101000000Z", ""),
        ("", ""),
        ("never", ""),
    ],
)
def test_a_property_of_a_file_has_a_date_unless_a_template_wrote_it(value: str, expected: str):
    assert date_of_property(value) == expected


def test_a_mail_without_a_sender_or_with_a_damaged_date_has_none():
    assert date_of_mail("Date: Fri, 3 May 2024 10:00:00 +0000\n\nText.") == ""
    assert date_of_mail("From: a\nDate: whenever\n\nText.") == ""
    assert date_of_mail("From: a\nDate: Fri, 99 May 2024 10:00:00 +0000\n\nText.") == ""
    assert date_of_mail("From: a\nDate: Fri, 3 May 123 10:00:00 +0000\n\nText.") == ""


def test_aliases_are_lists_or_texts_with_commas(tmp_path: Path):
    (tmp_path / "a.md").write_text("---\naliases: [Annie, AL, Annie]\n---\nText.", encoding="utf-8")
    (tmp_path / "b.md").write_text("---\nalias: Raj,  R. P. \n---\nText.", encoding="utf-8")
    (tmp_path / "c.md").write_text("---\naliases: 3\n---\nText.", encoding="utf-8")
    aliases = load(tmp_path).set_index("source")["aliases"].map(list).to_dict()
    assert aliases == {"a.md": ["Annie", "AL"], "b.md": ["Raj", "R. P."], "c.md": []}
