import pytest

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY, verb
from pipeline.contract.schemas import TEXTS
from pipeline.engine.workflow import read_workflow
from pipeline.errors import SettingsError
from tests.engine.small_project import WORKFLOW, SmallProject
from tests.engine.small_verbs import KeepParams


def test_steps_are_read_in_order_with_their_names_and_defaults(project: SmallProject):
    workflow = project.workflow
    assert workflow.name == "small"
    assert [step.id for step in workflow.steps] == [
        "read_numbers",
        "keep_even",
        "describe_numbers",
        "describe_again",
    ]
    read, keep, describe, again = workflow.steps
    assert read.params.model_dump() == {"path": "numbers.txt", "root": str(project.root)}
    assert keep.params == KeepParams(divisor=2)
    assert (keep.inputs, keep.outputs) == ({"numbers": "numbers"}, {"kept": "evens"})
    assert (describe.prompts, describe.models) == ({"ask": "ask"}, {"chat": "default"})
    assert again.outputs == {"texts": "more_texts", "rejects": "rejects"}


def test_args_win_over_the_defaults_of_the_settings(project: SmallProject):
    project.workflow_text = WORKFLOW.replace("{path: numbers.txt}", "{path: other.txt, root: here}")
    assert project.workflow.steps[0].params.model_dump() == {"path": "other.txt", "root": "here"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("verb: keep_even", "verb: keep_odd", r"no verb 'keep_odd'; have: describe_numbers, keep"),
        ("name: small", "nam: small", r"name: Field required"),
        ("  - verb: keep_even", "  - verbb: keep_even", r"steps.1.verb: Field required"),
        ("id: describe_again", "ids: x", r"unknown key 'steps.3.ids'; did you mean 'id'\?"),
        ("{path: numbers.txt}", "{paht: numbers.txt, path: x}", r"unknown key 'paht'; did you mean 'path'\?"),
        ("{path: numbers.txt}", "{}", r"step 'read_numbers': args: path: Field required"),
        ("{kept: evens}", "{kpet: evens}", r"outputs: the verb has no table \['kpet'\]; have: kept"),
        ("{numbers: evens}", "{number: evens}", r"inputs: the verb has no table \['number'\]"),
        ("{kept: evens}", "{kept: odds}", r"step '\w+' reads 'evens', which no earlier step writes"),
        ("{texts: more_texts}", "{}", r"steps '\w+' and '\w+' both write 'texts'; rename"),
        ("id: describe_again", "id: keep_even", r"two steps are called 'keep_even'; give one of them an id"),
        ("prompts: {ask: ask}", "prompts: {}", r"prompts: unknown roles \[\], unbound roles \['ask'\]"),
        ("prompts: {ask: ask}", "prompts: {ask: ask, x: y}", r"prompts: unknown roles \['x'\]"),
        ("prompts: {ask: ask}", "prompts: {ask: ask}\n    models: {chta: a}", r"unknown roles \['chta'\]"),
        ("{kept: evens}", "{kept: rejects}", r"step '\w+' writes 'rejects', which the run gathers"),
        ("inputs: {numbers: evens}", "inputs: {numbers: rejects}", r"step '\w+' reads 'rejects', which"),
        ("steps:", "steps: [", "not YAML at line"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(project: SmallProject, old: str, new: str, message: str):
    assert old in WORKFLOW
    project.workflow_text = WORKFLOW.replace(old, new)
    with pytest.raises(SettingsError, match=rf"small\.yaml: (.*: )?{message}"):
        _ = project.workflow


@pytest.mark.parametrize("content", [b"", b"[]", b"just text", b"\xff\xfe", b"name: x"])
def test_a_file_that_is_no_workflow_is_refused(project: SmallProject, content: bytes):
    path = project.root / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"odd\.yaml: \w"):
        read_workflow(path, {})


def test_a_missing_workflow_names_those_there_are(project: SmallProject):
    (project.root / "index.yaml").write_text("")
    with pytest.raises(SettingsError, match=r"indx\.yaml: no such workflow; have: index"):
        read_workflow(project.root / "indx.yaml", {})


def test_a_verb_is_registered_and_returned_as_it_is(project: SmallProject):
    def shorten(texts, limit: int = 3): ...

    with pytest.raises(TypeError, match=r"verb shorten: parameters \['limit'\] are neither"):
        verb(inputs={"texts": TEXTS}, outputs={})(shorten)
    assert "shorten" not in REGISTRY.verbs

    def pass_on(texts): ...

    assert verb(inputs={"texts": TEXTS}, outputs={"kept": TEXTS})(pass_on) is pass_on
    assert REGISTRY.get("pass_on", "here").takes_params is False
