"""The limit of a step's replies follows from what it reads, and never cuts what good
replies need."""

import pandas as pd

from pipeline.engine.reply_lengths import SLACK, ReplyLengths, longest_replies
from pipeline.models.base import ChatReply, ChatRequest
from tests.projects import DOCUMENTS, new_project
from tests.servers.openai_server import OpenAIServer, Reply


def request(row: str = "a") -> ChatRequest:
    return ChatRequest(row, ({"role": "user", "content": "x"},))


def test_a_limit_goes_by_the_text_of_the_row():
    lengths = ReplyLengths({"a": 100}, None)
    assert lengths.limited(request()).max_tokens == 3 * 100 + 2000
    assert lengths.limited(request("b")).max_tokens is None


def test_a_limit_is_never_below_what_good_replies_needed():
    lengths = ReplyLengths({"a": 100}, None, lambda: 2000)
    assert lengths.limited(request()).max_tokens == SLACK * 2000
    lengths.learn(
        [ChatReply("x", output_tokens=3000), ChatReply("x", "length", output_tokens=9000)]
    )
    assert lengths.limited(request()).max_tokens == SLACK * 3000


def test_replies_that_ended_at_a_limit_do_not_raise_it():
    rows = [
        ("extract", "ok", 70),
        ("extract", "truncated", 900),
        ("extract", "ok", 50),
        ("look", "look", 1),
    ]
    usage = pd.DataFrame(rows, columns=["step", "outcome", "output_tokens"]).assign(kind="chat")
    assert longest_replies(usage) == {"extract": 70}


def test_a_model_that_loops_ends_and_the_next_run_asks_for_no_more(
    tmp_path: object, openai: OpenAIServer
):
    folder = new_project(
        tmp_path / "p", "postgresql://nobody@127.0.0.1:9/nothing", DOCUMENTS, openai
    )  # type: ignore[operator]
    usual = openai.reply
    openai.reply = lambda messages, body: (
        Reply(endless=True)
        if "Tollen Observatory was opened" in messages[-1]["content"]
        else usual(messages, body)
    )
    run = folder.invoke(
        "index", "index", "--set", "models.chat.default.timeout=5", "--set", "max_reject_ratio=1"
    )
    assert run.exit_code == 0, run.stderr
    sent = [body.body["max_tokens"] for body in openai.requests if body.kind == "chat"]
    assert all(2000 < limit < 3500 for limit in sent)
    with folder.open() as project:
        rejects = project.table("rejects", "index")
        assert list(rejects["reason"]) == ["truncated"]
        assert "timeout" not in set(project.usage()["outcome"])


def usage_of(lengths: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {"step": "extract", "outcome": "ok", "kind": "chat", "output_tokens": lengths}
    )


def test_one_reply_without_end_in_usage_of_an_earlier_version_does_not_raise_the_limit_for_ever():
    assert longest_replies(usage_of([*range(401, 501), 8000])) == {"extract": 500}


def test_the_longest_of_few_replies_is_taken():
    assert longest_replies(usage_of([300, 700])) == {"extract": 700}
