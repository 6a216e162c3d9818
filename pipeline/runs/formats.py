"""The file formats.yaml: the format in which each chat model writes what it extracts, for steps
with ``format: auto``.

The file belongs to the project's owner. Before a model's first extraction, a run tries it and adds
a line; after that only the owner changes the line. The format is an argument of the step like any
other, so a changed line runs the steps again that use the model.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import yaml

from pipeline.contract.prompts import Prompt
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import ModelError, SettingsError
from pipeline.files import write_text
from pipeline.models.base import ChatModel, Listener, Talk
from pipeline.settings.validation import not_yaml, parse_yaml
from pipeline.verbs.format_trial import Choice, choose_format
from pipeline.verbs.graph_prompt import AUTO, Format

FILE = "formats.yaml"
FORMATS = tuple(format for format in get_args(Format) if format != AUTO)
HEADER = """\
# In which format each chat model writes what it extracts, for steps that say format: auto. A run
# adds a line for a new model, by a trial before the first extraction. Edit a line to decide
# yourself. Delete it, and the next run decides again: by the replies to the trial that the cache
# holds, and by calls only for the others.
"""


def read_formats(root: Path) -> dict[str, Format]:
    """Return the format of each model that the project's file names; empty if there is no file.

    Raises SettingsError if the content of the file is wrong.
    """
    path = root / FILE
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise SettingsError(
            f'{path}: must map models to formats; write a line for each, as "gpt-4o-mini": records'
        )
    for model, format in content.items():
        if format not in FORMATS:
            raise SettingsError(
                f"{path}: {model}: '{format}' is no format; write {' or '.join(FORMATS)}"
            )
    return {str(model): format for model, format in content.items()}


def add_format(root: Path, model: str, format: Format) -> None:
    """Add a line to the project's file and leave the owner's lines as they are."""
    path = root / FILE
    before = path.read_text(encoding="utf-8") if path.exists() else HEADER
    # An editor may have left the last line without its end.
    is_in_line = before and not before.endswith("\n")
    separator = "\n" if is_in_line else ""
    # JSON puts the name in quotes, which YAML reads alike: names of models have colons.
    quoted_model = json.dumps(model, ensure_ascii=False)
    write_text(path, f"{before}{separator}{quoted_model}: {format}\n")


def with_formats(
    workflow: Workflow, formats: Mapping[str, Format], model_of: Callable[[str], str]
) -> Workflow:
    """Return the workflow with the known formats filled in.

    ``model_of`` returns the model for a name in settings.yaml.
    """

    def fill_in(step: Step) -> Step:
        if not step.format_undecided:
            return step
        format = formats.get(model_of(chat_name(step)))
        return step if format is None else step.in_format(format)

    return replace(workflow, steps=tuple(fill_in(step) for step in workflow.steps))


def chat_name(step: Step) -> str:
    """Return the name, in settings.yaml, of the chat model that the step asks."""
    return next(name for role, name in step.models.items() if step.verb.roles[role] is ChatModel)


@dataclass(frozen=True)
class FormatChooser:
    """Chooses the format of steps that say ``auto``.

    ``chat`` returns a model by its name in settings.yaml, ``prompt`` a prompt by its name.
    """

    root: Path
    chat: Callable[[str], ChatModel]
    prompt: Callable[[str], Prompt]

    def trial(self, step: Step) -> Talk[Choice]:
        """Return the conversation by which the format would be decided."""
        types = getattr(step.params, "entity_types", ())
        prompt = self.prompt(step.prompts["extract"])
        return choose_format(prompt, ", ".join(types))

    def decide(self, step: Step, listener: Listener) -> Step:
        """Return the step in the format of the project's file, or else in the one that a trial
        finds.

        The file then keeps that format. Raises ModelError, and writes nothing, if the trial finds
        none.
        """
        chat = self.chat(chat_name(step))
        model = str(chat.identity["model"])
        known = read_formats(self.root).get(model)
        if known is not None:
            return step.in_format(known)
        (choice,) = chat.converse([self.trial(step)], listener)
        if not choice.answered:
            raise ModelError(
                f"step '{step.id}': format: auto: the trial failed ({choice.fact}); run again"
            )
        if choice.format is None:
            raise ModelError(
                f"step '{step.id}': format: auto: '{model}' answers a planted sentence in no format"
                f" that can be read ({choice.fact}); run 'graphmill doctor', or write \"{model}\":"
                f" records (or json) into {FILE}"
            )
        add_format(self.root, model, choice.format)
        return step.in_format(choice.format)
