"""HTML as a tree: text and attributes are escaped by the writer, so that no title or question can be markup."""

import re
from xml.etree.ElementTree import Element, tostring

from pipeline.text import clean

Child = Element | str
_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def element(tag: str, *children: Child | None, **attributes: str | float) -> Element:
    """``class_`` and ``for_`` are the attributes of that name, ``text_anchor`` is text-anchor; None is no child."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): _plain(str(value)) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            _append_text(made, _plain(child))
        elif child is not None:
            made.append(child)
    return made


def html_text(root: Element) -> str:
    """The document, with its doctype."""
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _plain(text: str) -> str:
    return _NO_CHARACTER.sub("", clean(text))
