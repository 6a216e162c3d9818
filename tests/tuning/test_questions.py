import pytest

from pipeline.contract.prompts import Prompt
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.tuning.questions import Passages, SampleFindings, TunePrompts, TuningBrief, questions
from tests.talking import converse

PROMPTS = TunePrompts(
    Prompt("domain", "D $texts"), Prompt("language", "L $texts"), Prompt("persona", "P $domain"),
    Prompt("types", "T $texts $max_types"), Prompt("extract", "E $entity_types: $text"),
)  # fmt: skip
REPLIES = {
    "D": "Bees",
    "L": "French",
    "P": "You are a bee-keeper.",
    "T": "- bee\n- Hive, bee; person",
}
RECORDS = (
    '("entity"<|>Ada<|>PERSON<|>kept'
    ' bees)##nonsense##("relationship"<|>Ada<|>Bea<|>taught<|>teaching<|>7)'
)


def asked(
    replies: dict[str, str], wanted: TuningBrief = TuningBrief()
) -> tuple[SampleFindings, list[str]]:
    prompts: list[str] = []

    def reply(request: ChatRequest) -> ChatReply:
        prompts.append(request.messages[0]["content"])
        return ChatReply({**REPLIES, **replies}.get(prompts[-1][0], RECORDS))

    (findings,) = converse(
        [questions(Passages(("a ```b", "c"), ("text",)), wanted, PROMPTS)], reply
    )
    return findings, prompts


def test_each_answer_serves_the_next_question():
    findings, prompts = asked({})
    assert findings.entity_types == ("bee", "hive", "person")
    assert (findings.domain, findings.language, findings.persona) == (
        "Bees",
        "French",
        "You are a bee-keeper.",
    )
    assert findings.problems == ()
    assert prompts[0] == "D a '''b\n---\nc"
    assert prompts[2] == "P Bees"
    assert (
        prompts[-1]
        == "You are a bee-keeper.\nThe texts are about: Bees\n\nE bee, hive, person: text"
    )


def test_a_type_of_one_character_counts_in_a_script_without_an_alphabet():
    findings, _ = asked({"T": "人、地、a、组织"})
    assert findings.entity_types == ("人", "地", "组织")


def test_an_example_has_the_records_that_could_be_read():
    (example,) = asked({})[0].examples
    assert (
        example.records == '("entity"<|>Ada<|>person<|>kept'
        ' bees)##\n("relationship"<|>Ada<|>Bea<|>taught<|>teaching<|>7)<|COMPLETE|>'
    )


def test_answers_given_by_the_user_are_not_requested():
    findings, prompts = asked({}, TuningBrief("ships", "Dutch", ("ship",)))
    assert [prompt[0] for prompt in prompts] == ["P", "Y"]
    assert (findings.domain, findings.language, findings.entity_types) == (
        "ships",
        "Dutch",
        ("ship",),
    )


@pytest.mark.parametrize(
    ("question", "what"), [("D", "domain"), ("L", "language"), ("P", "persona")]
)
@pytest.mark.parametrize("reply", ["", "I'm sorry, but I cannot help with that.", "word " * 400])
def test_a_reply_of_no_use_is_a_problem(question: str, what: str, reply: str):
    (problem,) = asked({question: reply})[0].problems
    assert problem.startswith(f"{what}: ")
