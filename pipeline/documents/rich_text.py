"""Convert a file of Rich Text (RTF) to plain text."""

from importlib.metadata import version
from pathlib import Path

from pipeline.contract.conversion import Conversion
from pipeline.text.ids import clean

SUFFIX = ".rtf"
_FIRST = "{\\rtf"


def rich_text_converter() -> str:
    """Return name and version of the library; raises PackageNotFoundError without the extra."""
    return f"striprtf {version('striprtf')}"


def convert_rich_text(path: Path) -> Conversion:
    """Convert a file; raises ImportError without the extra, and ValueError if it is no RTF."""
    from striprtf.striprtf import rtf_to_text

    # The format is ASCII; programs that write other bytes mean the code page of Windows.
    content = path.read_bytes().decode("cp1252", "replace")
    if not content.lstrip().startswith(_FIRST):
        raise ValueError("no RTF: it does not begin with {\\rtf")
    text: str = rtf_to_text(content, errors="replace")
    return Conversion(clean(text).strip(), rich_text_converter())
