"""Records which files a run reads, and changes files meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from pipeline.contract.conversion import Converter
from pipeline.contract.laws import Part
from pipeline.contract.registry import REGISTRY, Params
from pipeline.verbs.load_documents import LoadParams, read_files


def nothing() -> None:
    """Happens."""


def watched(
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[], object] = nothing,
    after: Callable[[], object] = nothing,
) -> list[list[str]]:
    """The files of each reading; what happens ``before`` they are read, once they are listed, and
    ``after`` that."""
    verb = REGISTRY.verbs["load_documents"]
    readings: list[list[str]] = []

    def read(files: pd.DataFrame, params: LoadParams, converter: Converter) -> object:
        readings.append(files["name"].tolist())
        before()
        result = read_files(files, params, converter)
        after()
        return result

    def parts(params: Params) -> tuple[Part, ...]:
        assert verb.parts
        listing, reading = verb.parts(params)
        return listing, replace(reading, function=read)

    monkeypatch.setitem(REGISTRY.verbs, "load_documents", replace(verb, parts=parts))
    return readings
