import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.graph import Claim, parse_claims, unreadable

FINED = Claim(
    subject="Velmar Shipping",
    object="",
    type="SMUGGLING",
    status="TRUE",
    start_date="1871-05-03",
    end_date="1871-05-03",
    description="It was fined.",
    source_text="The court fined Velmar Shipping.",
)
RECORD = (
    '("claim"<|>Velmar Shipping<|>NONE<|>smuggling<|>TRUE<|>1871-05-03T00:00:00<|>3 May 1871<|>It'
    " was fined.<|>The court fined Velmar Shipping.)"
)


@pytest.mark.parametrize(
    "reply",
    [
        RECORD + "<|COMPLETE|>",
        f"```\n{RECORD}\n##\n<|COMPLETE|>\n```",
        RECORD.replace('"claim"', "claim"),
        RECORD.replace("<|>", "<||>"),
        RECORD.replace("Velmar Shipping<|>", '"Velmar Shipping"<|>', 1),
        "Here are the claims:\n\n1. " + RECORD,
        RECORD.replace("NONE", ""),
    ],
)
def test_a_claim_is_read_however_it_is_written(reply: str):
    parsed = parse_claims(reply)
    assert parsed.records == (FINED,)
    assert unreadable(parsed, reply) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [("true", "TRUE"), ("**False**", "FALSE"), ("SUSPECTED", "SUSPECTED"), ("maybe", "SUSPECTED")],
)
def test_a_status_that_is_neither_true_nor_false_is_suspected(status: str, expected: str):
    assert [claim.status for claim in parse_claims(RECORD.replace("TRUE", status)).records] == [
        expected
    ]


def test_a_claim_without_its_source_or_with_a_bad_date_is_kept():
    reply = RECORD.replace("3 May 1871", "in spring").replace(
        "<|>The court fined Velmar Shipping.", ""
    )
    (claim,) = parse_claims(reply).records
    assert (claim.start_date, claim.end_date, claim.source_text) == ("1871-05-03", "", "")


def test_each_unreadable_claim_is_a_problem():
    parsed = parse_claims(
        f'{RECORD}##("claim"<|>a<|>b)##("claim"<|><|>NONE<|>x<|>TRUE<|><|><|>y<|>z)##(nonsense<|>x)'
    )
    assert len(parsed.records) == 1
    assert [problem.reason for problem in parsed.problems] == ["fields", "name", "kind"]


def test_a_record_that_the_reply_breaks_off_is_not_kept():
    parsed = parse_claims(f"{RECORD}##\n{RECORD[:-40]}")
    assert len(parsed.records) == 1
    assert [problem.reason for problem in parsed.problems] == ["truncated"]


def test_a_reply_without_claims_is_readable_if_it_is_complete():
    assert unreadable(parse_claims("<|COMPLETE|>"), "<|COMPLETE|>") is None


@given(
    st.text()
    | st.lists(st.sampled_from([*RECORD.split("<|>"), "<|>", "##", "<|COMPLETE|>", "\n"])).map(
        "".join
    )
)
def test_no_reply_raises(reply: str):
    parse_claims(reply)
