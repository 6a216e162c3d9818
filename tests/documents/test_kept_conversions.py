"""Check which converter a kept conversion is attributed to, and when it is replaced."""

from pathlib import Path

import pytest

from pipeline.contract.conversion import ConversionRules, FileToConvert, NotConverted
from pipeline.documents import pdf
from pipeline.documents.kept_conversions import KeepingConverter
from pipeline.models.cache.conversions import ConversionCache
from pipeline.models.cache.replies import ReplyCache
from tests.documents.test_pdf import prose, written


class Heard:
    def __init__(self) -> None:
        self.by_another: list[str] = []

    def expect(self, rows: int) -> None:
        pass

    def converted(self, kept: bool, by_another: str = "", failed: bool = False) -> None:
        assert kept
        assert not failed
        self.by_another.append(by_another)


def test_a_complete_conversion_stays_valid_after_ocr_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written(prose("Words of the harbour master."), tmp_path / "a.pdf")
    files, rules, heard = [FileToConvert(tmp_path / "a.pdf", "a.pdf")], ConversionRules(), Heard()
    cache = ConversionCache(ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite"))
    monkeypatch.setattr(pdf, "ocr_version", lambda: "")
    without = pdf.pdf_converter()
    converter = KeepingConverter(cache)
    converter.convert(files, rules)
    monkeypatch.setattr(pdf, "ocr_version", lambda: "rapidocr 9")
    converter.convert(files, rules, heard)
    monkeypatch.setattr(pdf, "version", lambda name: "99")
    converter.convert(files, rules, heard)
    cache.cache.close()
    assert heard.by_another == ["", without]


def test_a_file_without_scans_does_not_name_ocr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(prose("Words of the harbour master."), tmp_path / "a.pdf")
    monkeypatch.setattr(pdf, "ocr_version", lambda: "rapidocr 9")
    assert "rapidocr" not in pdf.convert_pdf(tmp_path / "a.pdf").converter


def test_a_failed_repetition_leaves_the_kept_conversion(tmp_path: Path):
    (tmp_path / "a.pdf").write_text("text")
    files = [FileToConvert(tmp_path / "a.pdf", "a.pdf")]
    (tmp_path / "own.py").write_text(
        "def good(path):\n    return 'good'\ndef bad(path):\n    raise KeyError(path)\n"
    )
    good, bad = (
        ConversionRules(own={"": f"own.py:{name}"}, folder=str(tmp_path))
        for name in ("good", "bad")
    )
    cache = ConversionCache(ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite"))
    converter = KeepingConverter(cache)
    [first] = converter.convert(files, good)
    [converted_again] = converter.convert(files, bad, repeats=lambda name: True)
    [after] = converter.convert(files, bad)
    cache.cache.close()
    assert isinstance(converted_again, NotConverted)
    assert first == after
