"""Templates in which every value is text: what stands in a document, a name or an answer never
becomes markup."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pipeline.pages.words import moment, number, price, span
from pipeline.text.ids import clean

HERE = Path(__file__).parent
STYLE = HERE / "style.css"
_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


@cache
def texts() -> Mapping[str, Any]:
    """All that pages say in English, by the files of ``texts/``; templates and scripts take it from
    here."""
    return {
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        for file in sorted((HERE / "texts").glob("*.yaml"))
    }


def environment(*folders: Path) -> Environment:
    """Templates of these folders, and those that all pages share. ``texts`` is known in each; ``|
    fill(name=value)`` puts values into one of them, ``| ticked`` shows what stands between
    backticks as code; ``span``, ``moment``, ``number`` and ``price`` are those of words.py."""
    made = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates"]), autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.globals["texts"] = texts()
    made.filters |= {
        "fill": _fill,
        "ticked": _ticked,
        "span": span,
        "moment": moment,
        "number": number,
        "price": price,
    }
    return made


def whole_page(made: Environment, template: str, **values: Any) -> str:
    """One file that needs nothing else, for a template that extends ``alone.html.j2``: it holds the
    style, and tells the browser to load and run nothing."""
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    trusted = Markup(style)  # noqa: S704 - our own
    return made.get_template(template).render(
        style=trusted, style_hash=f"sha256-{digest}", **values
    )


def _fill(text: str, **values: Any) -> str:
    return text.format(**values)


def _ticked(text: str) -> Markup:
    """What stands between `backticks` as code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in parts
    )


def _plain(value: Any) -> Any:
    """A text without what is no character; what is escaped already and numbers are left alone."""
    return _NO_CHARACTER.sub("", clean(value)) if type(value) is str else value
