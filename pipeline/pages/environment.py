"""Templates in which every value is escaped, so that text of documents, names and answers never
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
    """Return the English texts of all pages, by the names of the files in ``texts/``.

    Templates and scripts take every text from here.
    """
    return {
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        for file in sorted((HERE / "texts").glob("*.yaml"))
    }


def environment(*folders: Path) -> Environment:
    """Return an environment with the templates of these folders and those that all pages share.

    Each template knows ``texts``. The filter ``fill(name=value)`` puts values into a text, and
    ``ticked`` marks text between backticks as code. ``span``, ``moment``, ``number`` and ``price``
    are the functions of words.py.
    """
    made = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates"]), autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
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
    """Return a page that needs no other file, from a template that extends ``alone.html.j2``.

    The page holds the style, and tells the browser to load nothing else and to run no script.
    """
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    trusted = Markup(style)  # noqa: S704 - it is the package's own file
    return made.get_template(template).render(
        style=trusted, style_hash=f"sha256-{digest}", **values
    )


def _fill(text: str, **values: Any) -> str:
    return text.format(**values)


def _ticked(text: str) -> Markup:
    """Return the text as markup in which the parts between backticks are code."""
    parts = []
    for place, part in enumerate(text.split("`")):
        is_code = place % 2 == 1
        parts.append(Markup("<code>{}</code>").format(part) if is_code else escape(part))
    return Markup("").join(parts)


def _printable(value: Any) -> Any:
    """Return a text without control characters and code points that are no characters.

    Other values, and markup that is escaped already, are returned as they are. Markup is a subclass
    of str, therefore the exact type is compared.
    """
    return _NO_CHARACTER.sub("", clean(value)) if type(value) is str else value
