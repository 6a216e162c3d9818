"""Write ontology.yaml from an ontology in another form: RDF, a schema, or classes of pydantic."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.errors import SettingsError, UsageError
from pipeline.files import write_text
from pipeline.ontology.classes import read_classes
from pipeline.ontology.rdf import PARSERS, read_rdf
from pipeline.ontology.read import FILE, parse_ontology

RDF_SUFFIXES = tuple(PARSERS)
TEXT_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class OntologyImport:
    """The numbers of types and patterns that were written, and the statements that were not
    understood."""

    entity_types: int
    relationship_types: int
    patterns: int
    not_understood: tuple[str, ...] = ()


def import_ontology(source: Path, root: Path, force: bool = False) -> OntologyImport:
    """Write ontology.yaml of the project in ``root`` from the file ``source``.

    Raises UsageError if the project has an ontology and ``force`` is false, or for a file of
    another kind. Raises SettingsError, with nothing written, if the ontology has a mistake.
    """
    target = root / FILE
    if target.exists() and not force:
        raise UsageError(f"{target}: is there already; move it away, or use --force")
    text, not_understood = _convert(source)
    header = f"# Imported from {source.name}.\n"
    ontology = parse_ontology(text, str(source))
    if ontology is None:
        raise SettingsError(f"{source}: has no types; name another file")
    write_text(target, header + text)
    return OntologyImport(
        len(ontology.entity_types),
        len(ontology.relationship_types),
        len(ontology.patterns),
        not_understood,
    )


def _convert(source: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of ontology.yaml for a file, and what was not understood of it."""
    suffix = source.suffix.lower()
    if suffix in RDF_SUFFIXES:
        imported = read_rdf(source)
        return _write_yaml(imported.content), imported.not_understood
    if suffix == ".py":
        return _write_yaml(read_classes(source)), ()
    if suffix in TEXT_SUFFIXES:
        try:
            return source.read_text(encoding="utf-8-sig"), ()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{source}: {error}; name a text in UTF-8") from None
    known = ", ".join((*RDF_SUFFIXES, ".py", *TEXT_SUFFIXES))
    raise UsageError(f"{source}: no kind of file that holds an ontology; have: {known}")


def _write_yaml(content: object) -> str:
    return yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )
