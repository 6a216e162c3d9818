"""The list of reasons is closed: all that the code can give are in it, and a step that gives
another one fails."""

import re
from pathlib import Path

import pytest

from pipeline.contract.reasons import (
    PASSING_REASONS,
    REASONS,
    Reason,
    decided,
    loss_of,
    refuse_unknown_reasons,
)
from pipeline.errors import DataError

ROOT = Path(__file__).parents[2]
GIVEN = re.compile(
    r"""(?:Fault|Failure)\(\s*"(\w+)" | Mark\("\w+",\s"(\w+)" | _rejects\([^"\n]*"(\w+)"\) """
    r"""| ^\s+reason,\smessage\s=\s"(\w+)" | faults\s=\s.*\.where\(.*,\s"(\w+)"\) """,
    re.VERBOSE | re.MULTILINE,
)


def given() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "pipeline").rglob("*.py")]
    return {
        reason
        for source in sources
        for match in GIVEN.findall(source)
        for reason in match
        if reason
    }


def test_every_reason_in_the_code_is_in_the_list():
    assert (
        {"encoding", "timeout", "orphan", "ungrounded", "content_filter"} <= given() <= set(REASONS)
    )
    assert set(REASONS) >= PASSING_REASONS


def test_an_undeclared_reason_is_refused():
    refuse_unknown_reasons(["parse", "empty", "parse"], "step 'x'")
    with pytest.raises(DataError, match=r"step 'x': .*: bored, tired; "):
        refuse_unknown_reasons(["tired", "parse", "bored"], "step 'x'")


def test_the_documentation_explains_every_reason():
    section = (
        (ROOT / "docs" / "tables.md")
        .read_text(encoding="utf-8")
        .partition("| Reason |")[2]
        .partition("\n## ")[0]
    )
    told = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section, re.MULTILINE)
    assert {name: (loss, meaning) for name, loss, meaning in told} == {
        name: (reason.loss, reason.meaning) for name, reason in REASONS.items()
    }


def test_the_class_of_a_reject_is_that_of_its_reason_unless_its_kind_is_never_a_loss():
    own = {"unwanted": decided("not wanted"), "odd": Reason("an odd number")}
    assert (
        loss_of("row", "parse", own)
        == loss_of("cut", "truncated", own)
        == loss_of("row", "odd", own)
        == "lost"
    )
    assert (
        loss_of("record", "record", own) == loss_of("row", "of an earlier version", own) == "lost"
    )
    assert loss_of("record", "self_loop", own) == loss_of("row", "unwanted", own) == "decided"
    assert loss_of("skipped", "empty", own) == loss_of("recovered", "truncated", own) == "decided"
