from pathlib import Path

import pytest

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY, verb
from pipeline.contract.schemas import TEXTS
from pipeline.engine.workflow import Workflow
from pipeline.engine.workflow_file import read_workflow
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
        ("verb: keep_even", "verb: keep_odd", r"no verb 'keep_odd'; did you mean 'keep_even'\?"),
        ("name: small", "nam: small", r"unknown key 'nam'; did you mean 'name'\?"),
        ("  - verb: keep_even", "  - verbb: keep_even",
            r"unknown key 'steps.1.verbb'; did you mean 'verb'\?"),
        ("id: describe_again", "ids: x", r"unknown key 'steps.3.ids'; did you mean 'id'\?"),
        ("{path: numbers.txt}", "{paht: numbers.txt, path: x}",
            r"unknown key 'paht'; did you mean 'path'\?"),
        ("{path: numbers.txt}", "{}", r"step 'read_numbers': args: path: Field required"),
        ("{kept: evens}", "{kpet: evens}",
            r"outputs: the verb has no table \['kpet'\]; have: kept"),
        ("{numbers: evens}", "{number: evens}", r"inputs: the verb has no table \['number'\]"),
        ("{kept: evens}", "{kept: odds}",
            r"step '\w+' reads 'evens', which no earlier step writes"),
        ("{texts: more_texts}", "{}", r"steps '\w+' and '\w+' both write 'texts'; rename"),
        ("id: describe_again", "id: keep_even",
            r"two steps are called 'keep_even'; give one of them an id"),
        ("prompts: {ask: ask}", "prompts: {}",
            r"prompts: unknown roles \[\], unbound roles \['ask'\]"),
        ("prompts: {ask: ask}", "prompts: {ask: ask, x: y}", r"prompts: unknown roles \['x'\]"),
        ("prompts: {ask: ask}", "prompts: {ask: ask}\n    models: {chta: a}",
            r"unknown roles \['chta'\]"),
        ("{kept: evens}", "{kept: rejects}", r"step '\w+' writes 'rejects', which the run gathers"),
        ("inputs: {numbers: evens}", "inputs: {numbers: rejects}",
            r"step '\w+' reads 'rejects', which"),
        ("steps:", "steps: [", "not YAML at line"),
        ("{path: numbers.txt}", "{path: numbers.txt, path: x}",
            r"line \d+: steps\.args\.path: the key is there twice; keep one of them"),
        ("steps:", "step:", r"unknown key 'step'; did you mean 'steps'\?"),
        ("{texts: more_texts}", "{texts: t}\n    models: {chat: careful}",
         r"step 'describe_again': models: chat: no model 'careful' in the settings; name one of models\.chat: default"),  # noqa: E501
        ("{texts: more_texts}", "{texts: t}\n    after: keep_even",
            r"step 'describe_again': after: small extends no"),
    ],
)  # fmt: skip
def test_a_fault_of_a_workflow_is_reported_with_its_place(
    project: SmallProject, old: str, new: str, message: str
):
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

    with pytest.raises(TypeError, match=r"verb 'shorten': parameter 'limit' is neither"):
        verb(inputs={"texts": TEXTS}, outputs={})(shorten)
    assert "shorten" not in REGISTRY.verbs

    def pass_on(texts): ...

    assert verb(inputs={"texts": TEXTS}, outputs={"kept": TEXTS})(pass_on) is pass_on
    assert REGISTRY.verbs["pass_on"].takes_params is False


def extending(project: SmallProject, text: str, name: str = "more") -> Workflow:
    """Write a workflow beside ``small``, which it may extend."""
    _ = project.workflow
    path = project.root / f"{name}.yaml"
    path.write_text(f"name: {name}\n{text}")
    return read_workflow(path, {"input": {"root": str(project.root)}})


def test_the_steps_of_a_workflow_that_is_extended_come_first(project: SmallProject):
    more = extending(
        project,
        """
extends: small
emit: {thirds: [json]}
steps:
  - verb: keep_even
    id: keep_thirds
    after: keep_even
    args: {divisor: 3}
    outputs: {kept: thirds}
  - verb: describe_numbers
    id: describe_again
    inputs: {numbers: thirds}
    outputs: {texts: more_texts}
    prompts: {ask: ask_again}
  - verb: describe_numbers
    id: describe_all
    outputs: {texts: all_texts}
    prompts: {ask: ask}
""",
    )
    assert [step.id for step in more.steps] == [
        "read_numbers", "keep_even", "keep_thirds", "describe_numbers", "describe_again",
        "describe_all",
    ]  # fmt: skip
    assert (more.steps[2].params, more.steps[4].inputs) == (
        KeepParams(divisor=3),
        {"numbers": "thirds"},
    )
    assert more.emit == {"thirds": ("parquet", "json")}
    small = {step.id: step for step in project.workflow.steps}
    assert [step for step in more.steps if step == small.get(step.id)] == [
        small[name] for name in ("read_numbers", "keep_even", "describe_numbers")
    ]


def test_a_workflow_that_extends_an_extended_one_has_the_steps_of_both(project: SmallProject):
    extending(
        project,
        "extends: small\nemit: {odds: [csv]}\nsteps:\n  - {verb: keep_even, id: odd, outputs:"
        " {kept: odds}}\n",
    )
    most = extending(
        project,
        "extends: more\nsteps:\n  - {verb: keep_even, id: odd, outputs: {kept: odds}, args:"
        " {divisor: 5}}\n",
        "most",
    )
    assert [step.id for step in most.steps][-2:] == ["describe_again", "odd"]
    assert most.steps[-1].params == KeepParams(divisor=5)
    assert most.emit == {"odds": ("parquet", "csv")}


def test_a_converter_in_a_step_is_in_no_fingerprint(tmp_path: Path):
    path = tmp_path / "load.yaml"
    args = "{path: here, converter: [read, --key, hunter2, '{file}']}"
    path.write_text(
        f"name: load\nsteps:\n  - verb: load_documents\n    args: {args}\n", encoding="utf-8"
    )
    step = read_workflow(path, {}).steps[0]
    assert list(step.place.values()) == ["here"]
    assert "hunter2" not in repr(step)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: smal\nsteps: []", r"smal\.yaml: no such workflow; have: more, small"),
        ("extends: more\nsteps: []", r"more\.yaml: extends itself \(more -> more\); remove one"),
        (
            (
                "extends: small\nsteps:\n  - {verb: keep_even, id: odd, after: keep_evn, outputs:"
                " {kept: odds}}"
            ),
            r"more\.yaml: step 'odd': after: no step 'keep_evn'; did you mean 'keep_even'\?",
        ),
        (
            (
                "extends: small\nsteps:\n  - {verb: keep_even, after: read_numbers, outputs: {kept:"
                " evens}}"
            ),
            r"more\.yaml: step 'keep_even': takes the place of the step of 'small'; remove after",
        ),
        (
            (
                "extends: small\nsteps:\n  - {verb: keep_even, id: o, outputs: {kept: x}}\n  -"
                " {verb: keep_even, id: o}"
            ),
            r"more\.yaml: two steps are called 'o'",
        ),
        (
            "extends: small\nsteps:\n  - {verb: keep_even, id: odd, outputs: {kept: evens}}",
            "both write 'evens'",
        ),
    ],
)
def test_a_fault_of_an_extending_workflow_is_reported_with_its_place(
    project: SmallProject, text: str, message: str
):
    with pytest.raises(SettingsError, match=message):
        extending(project, text)
