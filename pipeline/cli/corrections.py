"""The commands of corrections and the command suspects: what people decide about the graph."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.build import carry_out
from pipeline.cli.options import (
    Folder,
    Json,
    Log,
    Overrides,
    Shown,
    ShownToo,
    open_project,
    print_aside,
    print_json,
)
from pipeline.errors import UsageError, counted

if TYPE_CHECKING:
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.project import Project
    from pipeline.runs.corrections import Added, Effect

MERGE, SPLIT = "merge", "split"
"""Kinds of the command line that become corrections of kind rename.

A merge gives several entities one name. A split gives a name to the entity of one document, or of
the text units that have a quote.
"""
SHOWN_APART = frozenset({"id", "kind", "by", "at", "records", "text_units", "pending"})
"""Fields of a correction that its line shows in a form of their own, not as ``field=value``."""
FOR_UNDO = frozenset({"was", "replaces"})
"""Fields that no line shows: with them, ``undo`` leads earlier renamings back."""
Id = Annotated[str, typer.Argument(metavar="ID", help="An id, or its beginning, as 'list' shows.")]


def list_corrections(
    context: typer.Context, workflow: Shown = None, folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False,
) -> None:  # fmt: skip
    """List the corrections, and what each changed in the last run."""
    with open_project(context, folder, overrides, as_json) as project:
        effects = project.corrections(workflow)
    if as_json:
        print_json([effect.to_json() for effect in effects])
        return
    for effect in effects:
        print(f"{effect.decision.id}  {_describe(effect)}")
    print(counted(len(effects), "correction"))


def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(
        metavar="KIND", help="rename, merge, split, delete_entity, set_type, describe_entity,"
        " set_property, delete_property, add_statement, delete_statement, turn_statement,"
        " retype_statement, describe_statement, same, different or keep.",
    )],
    entity: Annotated[list[str] | None, typer.Option(help="A name; several to merge.")] = None,
    to: Annotated[str | None, typer.Option(help="The new name or type.")] = None,
    source: Annotated[str | None, typer.Option(help="The source of a statement.")] = None,
    target: Annotated[str | None, typer.Option(help="The target of a statement.")] = None,
    type: Annotated[str | None, typer.Option(help="Only entities or statements of this"
                                             " type.")] = None,
    description: Annotated[str | None, typer.Option(help="The new description.")] = None,
    append: Annotated[bool, typer.Option("--append", help="Add the description to those of the"
                                         " texts.")] = False,
    property: Annotated[str | None, typer.Option(help="The name of a property.")] = None,
    value: Annotated[str | None, typer.Option(help="Its value.")] = None,
    document: Annotated[str | None, typer.Option(help="Path or id of a document.")] = None,
    quote: Annotated[str | None, typer.Option(help="A phrase that the text unit has.")] = None,
    a: Annotated[str | None, typer.Option("--a", help="A name of a pair.")] = None,
    b: Annotated[str | None, typer.Option("--b", help="The other name.")] = None,
    other: Annotated[str | None, typer.Option(help="With keep: the entity that is no"
                                               " duplicate.")] = None,
    why: Annotated[str | None, typer.Option(help="The reason, for people.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it changes; write"
                                          " nothing.")] = False,
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    workflow: ShownToo = None,
) -> None:  # fmt: skip
    """Add a correction, which all runs follow from the next one on."""
    given = {
        "to": to, "source": source, "target": target, "type": type, "description": description,
        # Without --append the field is left out, as all options that are not given.
        "append": append or None, "property": property, "value": value, "document": document,
        "quote": quote, "a": a, "b": b, "other": other, "why": why,
    }  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    added: list[Added] = []
    with open_project(context, folder, overrides, as_json) as project:
        try:
            for correction in _make_corrections(kind, entity or [], options):
                one = project.add_correction(correction, workflow, dry_run)
                added.append(one)
        except BaseException:
            # Those before the one that is refused are written all the same. With --json, the
            # output is the error alone, so that it is one document.
            if added and as_json:
                written = ", ".join(one.effect.decision.id for one in added)
                print_aside(f"written before the refusal: {written}")
            elif added:
                _print_added(added, dry_run, as_json)
            raise
    _print_added(added, dry_run, as_json)


def undo(
    context: typer.Context, id: Id, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    workflow: ShownToo = None,
) -> None:  # fmt: skip
    """Take a correction back."""
    with open_project(context, folder, overrides, as_json) as project:
        decision = project.undo_correction(id, workflow)
    if as_json:
        print_json({"undone": decision.id})
    else:
        print(
            f"undone: {decision.id}; the next run no longer follows it, and 'graphmill corrections"
            " apply' takes it out at once"
        )


def apply(
    context: typer.Context, workflow: Shown = None, folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto",
) -> None:  # fmt: skip
    """Apply the corrections now: no source is read anew, and no model is asked."""

    def apply_now(project: "Project", progress: "Progress") -> "RunReport":
        return project.apply_corrections(workflow, progress)

    carry_out(apply_now, context, folder, overrides, as_json, log)


def suspects(
    context: typer.Context, workflow: Shown = None, folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Suspects to list.")] = 200,
) -> None:  # fmt: skip
    """List entities of the last run that may be mistakes: junk, duplicates, types, orphans."""
    with open_project(context, folder, overrides, as_json) as project:
        found = project.suspects(workflow, limit)
    if as_json:
        print_json(found.to_json())
        return
    for one in found.listed:
        other = f" - perhaps {one.other!r}" if one.other else ""
        print(f"{one.kind:<9}  {one.name!r} ({one.type or 'no type'}): {one.why}{other}")
    for note in found.notes:
        print(f"note: {note}")
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.counts.items() if count)
    total = counted(sum(found.counts.values()), "suspect")
    print(f"{total}: {kinds}" if kinds else total)


def _make_corrections(
    kind: str, entities: list[str], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the fields of each correction that the options ask for.

    Raises UsageError where options do not fit the kind.
    """
    if kind == MERGE:
        if "to" not in options or not entities:
            raise UsageError("corrections: merge needs --entity A --entity B and --to NAME")
        others = [entity for entity in entities if entity != options["to"]]
        if not others:
            raise UsageError(
                f"corrections: merge needs an entity that becomes '{options['to']}'; name it by"
                " --entity"
            )
        return [{"kind": "rename", "entity": entity, **options} for entity in others]
    if kind == SPLIT:
        if not ({"document", "quote"} & set(options)):
            raise UsageError("corrections: split needs --document PATH, --quote TEXT, or both")
        kind = "rename"
    if len(entities) > 1:
        raise UsageError(f"corrections: {kind} takes one --entity; give one, or 'merge' several")
    named = {"entity": entities[0]} if entities else {}
    return [{"kind": kind, **named, **options}]


def _print_added(added: "list[Added]", dry_run: bool, as_json: bool) -> None:
    if as_json:
        rows = [
            {**one.effect.to_json(), "file": str(one.file), "notes": list(one.notes)}
            for one in added
        ]
        print_json({"written": not dry_run, "corrections": rows})
        return
    for one in added:
        print(f"{one.effect.decision.id}  {_describe(one.effect)}")
        for note in one.notes:
            print(f"note: {note}")
    if dry_run:
        print("nothing is written")
        return
    followed = "it" if len(added) == 1 else "them"
    print(
        f"written to {added[0].file}; the next run follows {followed}; 'graphmill plan' shows its"
        f" cost; 'graphmill corrections apply' applies {followed} at once"
    )


def _describe(effect: "Effect") -> str:
    """Return a line on a correction: what it decides, who made it, and what it changed."""
    fields = effect.to_json()
    not_listed = SHOWN_APART | FOR_UNDO
    parts = [fields["kind"]]
    parts += [f"{key}={cell!r}" for key, cell in fields.items() if key not in not_listed]
    day = effect.decision.at[: len("2026-01-31")]
    signature = ", ".join(part for part in (effect.decision.by, day) if part)
    if signature:
        parts.append(f"(by {signature})")
    if effect.records is not None and effect.text_units is not None:
        records = counted(effect.records, "record")
        parts.append(f"- {records} in {counted(effect.text_units, 'text unit')}")
        if effect.records == 0:
            parts.append("(matches nothing)")
    elif effect.pending:
        parts.append("- pending: no run has followed it yet")
    return " ".join(parts)
