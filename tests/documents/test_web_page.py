"""Saved web pages: which part of a page is the article, and pages saved as one file (MHTML)."""

from collections.abc import Callable, Sequence
from email.message import EmailMessage
from pathlib import Path

import pytest

from pipeline.contract.conversion import Conversion, ConversionRules, Converted, FileToConvert
from pipeline.documents.conversion import convert
from pipeline.documents.kept_conversions import KeepingConverter
from pipeline.documents.limited_converter import converter_name
from pipeline.models.cache.conversions import ConversionCache
from pipeline.models.cache.replies import ReplyCache
from pipeline.verbs.load_documents import LoadParams, load_documents

PAGE = """<html><head><title>The Harrow Light</title><style>p {color: red}</style></head>
<body class="cookie-banner-shown">
<div id="onetrust-consent-sdk"><p>Accept all.</p></div>
<header><a href="/">Home</a><nav><ul><li>Imprint</li></ul></nav></header>
<main>
  <nav>Breadcrumbs</nav>
  <article>
    <header><h1>The lamp of 1871</h1></header>
    <p>Mira Vale built the Harrow Light. 灯塔</p>
    <aside>It burned colza oil.</aside>
    <footer>By Anselm Torr.</footer>
  </article>
  <aside>Related pages</aside>
</main>
<div class="gdpr cookie_notice"><p>We count visits.</p></div>
<div role="search">Search here</div>
<footer>Copyright</footer></body></html>"""
OF_ARTICLE = ("The lamp of 1871", "Mira Vale", "灯塔", "colza", "Anselm Torr")
OF_PAGE = ("Accept", "Home", "Imprint", "Breadcrumbs", "Related", "visits", "Search", "Copyright")


def written(folder: Path, page: str, name: str = "a.html") -> Path:
    path = folder / name
    path.write_text(page, encoding="utf-8")
    return path


def archived(page: str) -> bytes:
    """A page as a browser saves it, with a page in a frame behind it."""
    archive = EmailMessage()
    archive["From"] = "<Saved by Blink>"
    archive["Snapshot-Content-Location"] = "https://example.org/lamp"
    archive["Date"] = "Fri, 3 May 2024 21:30:00 -0000"
    archive.set_content(page, subtype="html", charset="utf-8", cte="quoted-printable")
    archive.add_related("<p>An advertisement</p>", subtype="html")
    return archive.as_bytes()


def test_the_article_is_read_without_what_belongs_to_the_page(tmp_path: Path):
    found = convert(written(tmp_path, PAGE), articles=True)
    assert found.title == "The Harrow Light"
    assert "# The lamp of 1871" in found.text
    assert [words for words in OF_ARTICLE if words not in found.text] == []
    assert [words for words in OF_PAGE if words in found.text] == []


def test_a_process_of_its_own_reads_the_article_where_settings_want_it(tmp_path: Path):
    written(tmp_path, PAGE)
    documents, _ = load_documents(LoadParams(path=str(tmp_path), web_pages="article"))
    assert "Mira Vale" in documents["text"].item()
    assert "Copyright" not in documents["text"].item()


def test_the_whole_page_is_read_where_no_article_is_wanted(tmp_path: Path):
    text = convert(written(tmp_path, PAGE)).text
    assert [words for words in (*OF_ARTICLE, *OF_PAGE) if words not in text] == []


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        ("<p>A page without landmarks.</p>", ["without landmarks"]),
        ("<nav><p>A page of links alone.</p></nav>", ["links alone"]),
        ("<article>One of two.</article><article>Two of two.</article>", ["One of", "Two of"]),
        ("<main></main><p>A page whose main part stands elsewhere.</p>", ["elsewhere"]),
        ("<div class='cookie-bar'><h1>Cookies</h1><main>Bake them.</main></div>", ["Bake them"]),
        ("<div role='banner'><main>In a banner.</main></div>", ["In a banner"]),
        ("<main>One.<article>A comment.</article></main>", ["One.", "A comment."]),
    ],
)
def test_a_page_in_which_no_article_is_found_loses_no_text(
    tmp_path: Path, page: str, kept: list[str]
):
    text = convert(written(tmp_path, f"<html><body>{page}</body></html>"), articles=True).text
    assert [words for words in kept if words not in text] == []


def test_a_heading_in_the_header_of_the_page_is_the_title_of_one_without_a_title(tmp_path: Path):
    page = "<header><h1>The lamp</h1></header><main><p>It burns.</p></main>"
    found = convert(written(tmp_path, page), articles=True)
    assert (found.title, found.text.strip()) == ("The lamp", "It burns.")


@pytest.mark.parametrize("suffix", [".mhtml", ".mht"])
def test_a_page_in_one_file_has_its_address_and_the_day_of_saving(tmp_path: Path, suffix: str):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(archived(PAGE))
    whole, article = convert(path), convert(path, articles=True)
    assert whole.metadata == article.metadata == {
        "url": "https://example.org/lamp", "saved": "2024-05-03",
    }  # fmt: skip
    assert (whole.title, article.title) == ("The Harrow Light", "The Harrow Light")
    assert "Copyright" in whole.text
    assert "Copyright" not in article.text
    assert "灯塔" in whole.text
    assert "灯塔" in article.text
    assert "advertisement" not in whole.text + article.text


def test_files_without_a_page_are_rejects(tmp_path: Path):
    contents = (b"", b"Words.", b"\0\xff" * 50, b"MIME-Version: 1.0\n\nText")
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.mhtml").write_bytes(content)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents.empty
    assert rejects["reason"].tolist() == ["parse"] * len(contents)


class InThisProcess:
    """A converter without processes of its own, each of which takes seconds to start."""

    def each(
        self, files: Sequence[FileToConvert], rules: ConversionRules,
        ended: Callable[[int, Converted], None],
    ) -> None:  # fmt: skip
        for place, file in enumerate(files):
            ended(place, convert(file.path, rules.articles))


def test_the_setting_changes_no_page_that_has_been_converted(tmp_path: Path):
    page = FileToConvert(written(tmp_path, PAGE), "a.html")
    new = FileToConvert(written(tmp_path, f"{PAGE}<!-- edited -->", "b.html"), "b.html")
    cache = ConversionCache(ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite"))
    converter = KeepingConverter(cache, InThisProcess())
    whole, articles = ConversionRules(), ConversionRules(articles=True)
    before = converter.convert([page], whole)
    assert converter.convert([page], articles) == before
    [of_new] = converter.convert([new], articles)
    assert isinstance(of_new, Conversion)
    assert of_new.converter == converter_name(".html", articles) != converter_name(".html", whole)
    [again] = converter.convert([page], articles, repeats=lambda name: True)
    cache.cache.close()
    assert again == of_new
