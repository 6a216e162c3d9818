"""Names of files: which of them name what the file is about."""

import pytest

from pipeline.text.file_names import is_name


@pytest.mark.parametrize(
    "stem",
    [
        "Ann Moor", "Norholm", "O'Brien", "Jean-Luc", "Kell Foundry", "books of 1871", "Été",
        "Plan (draft 2)", "Meeting 2024-05-03", "林海", "McDonald",
    ],
)  # fmt: skip
def test_words_and_capitalised_words_are_names(stem: str):
    assert is_name(stem)


@pytest.mark.parametrize(
    "stem",
    [
        "", "-", "lamp", "doc-3", "IMG_2031", "IMG 2031", "2024-05-03", "03.05.2024", "2024 05",
        "chapter01", "Chapter 1", "README", "Readme", "LICENSE", "Scan 12", "Copy of Document (2)",
        "New Microsoft Word Document", "Untitled", "Report2024", "Annual_Report final",
        "deadbeef01234567", "9f1c 0123456789abcdef0123", "a.jsonl#3f", "Big List.csv#Ann",
        "name " * 30,
    ],
)  # fmt: skip
def test_codes_numbers_and_names_by_programs_are_none(stem: str):
    assert not is_name(stem)
