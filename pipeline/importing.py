"""Imports into a project: indexes of GraphRAG and LightRAG, tables, and ontologies.

Each method imports the modules that it needs, so that a query loads none of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pipeline.errors import UsageError
from pipeline.files import temporary_folder
from pipeline.running import Running

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import LiteralString, Self

    from pipeline.documents.own_tables.imported import TableImport
    from pipeline.engine.run_options import RunOptions
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.ontology.other_forms import OntologyImport
    from pipeline.verbs.read_lightrag import LightragIndex


class Importing(Running):
    """The imports of a project."""

    def import_graphrag(
        self,
        folder: str | Path,
        name: str = "",
        progress: Progress | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Index a workflow that reads an index of GraphRAG, in this folder instead of that of
        settings. Notes of the report name what is not taken, by table or file.

        Without ``name``, the workflow is graphrag_cache if the index has replies in its cache, and
        graphrag otherwise. Files of the input folder that a model would be asked about wait for
        the next run: a note says so.

        Raises UsageError for another workflow, and if the cache that the last run has read is gone;
        SettingsError if a table is missing, DataError if one is damaged, and DeletionError if an
        optional one is gone since the last run.
        """
        from pipeline.engine.workflow import OF_GRAPHRAG, READ_GRAPHRAG_CACHE
        from pipeline.runs.import_graphrag import (
            choose_workflow,
            note_left_out,
            note_place,
            note_unused,
        )

        path = Path(folder).resolve()
        section = self.settings.graphrag.model_copy(update={"path": str(path)})
        project = replace(self, settings=self.settings.model_copy(update={"graphrag": section}))
        chosen, reasons = (name, []) if name else choose_workflow(self, path)
        verb = project._refuse_workflow_without(OF_GRAPHRAG, chosen)
        project._refuse_purged(chosen, "import graphrag")
        if verb == READ_GRAPHRAG_CACHE:
            report = project._index_import(chosen, "graphrag", progress, options)
            reasons += note_place(self, path)
        else:
            report = project.index(chosen, progress, options=options)
        sizes = {table: one.rows for table, one in self.snapshots.manifest(chosen).tables.items()}
        unused = note_unused(project.workflow(chosen), sizes)
        left_out = note_left_out(project.rejects(chosen))
        return replace(report, notes=(*reasons, *unused, *left_out, *report.notes))

    def import_lightrag(
        self,
        source: str | Path,
        name: str = "lightrag",
        progress: Progress | None = None,
        options: RunOptions | None = None,
        of_workspace: str = "",
    ) -> RunReport:
        """Copy an index to ``lightrag.path`` of settings, and index a workflow that begins with
        ``read_lightrag``. No chat model is asked.

        ``source`` is LightRAG's working folder, or the address of its PostgreSQL, postgresql://...,
        and ``of_workspace`` the workspace there, if it has several.
        Files of the input folder that a model would be asked about wait for the next run: a note
        says so. Raises UsageError if they are in the last run already, and for another workflow;
        SettingsError if a file is missing; DataError if one is damaged or was written by another
        version; DeletionError, with nothing copied, if too many documents or records of the last
        run are gone.
        """
        from pipeline.engine.documents.row_deletions import refuse_index_deletions
        from pipeline.engine.workflow import READ_LIGHTRAG
        from pipeline.runs.import_lightrag import take_edits, take_index

        self._refuse_workflow_without({READ_LIGHTRAG}, name)
        self._refuse_purged_index(source, name, of_workspace)

        def check(index: LightragIndex) -> None:
            if options is None or not options.allow_deletes:
                refuse_index_deletions(
                    self.snapshots, self.snapshots.manifest(name), index.documents,
                    index.extractions, self.settings.max_delete_ratio,
                )  # fmt: skip

        with self.runs.alone():
            index = take_index(self, source, of_workspace, check)
            notes = take_edits(self, index)
        report = self._index_import(name, "lightrag", progress, options)
        return replace(report, notes=(*report.notes, *notes))

    def _index_import(
        self, name: str, section: str, progress: Progress | None, options: RunOptions | None
    ) -> RunReport:
        """Index a workflow that reads an index with replies, and ask no model.

        ``section`` of settings is about the index. Files that a model would be asked about wait for
        the next run. Raises UsageError if they are in the last run already.
        """
        from pipeline.engine.workflow import INPUT_DOCUMENTS

        if not self._asks_about_files(name):
            return self.index(name, progress, options=options)
        fact = f"{self.input_folder} has files that a chat model must read, and an import asks none"
        then = f"'graphmill plan {name}' says what they cost, 'graphmill run {name}' adds them"
        if INPUT_DOCUMENTS in self.snapshots.manifest(name).tables:
            raise UsageError(f"import {section}: {fact}; the index is in its place: {then}")
        of_index = getattr(self.settings, section).model_copy(update={"files": ""})
        alone = replace(self, settings=self.settings.model_copy(update={section: of_index}))
        report = alone.index(name, progress, options=options)
        return replace(report, notes=(f"{fact}; {then}", *report.notes))

    def _refuse_purged(self, name: str, action: str) -> None:
        """Raise UsageError if the workflow would read a document that was purged."""
        from pipeline.engine.documents.document_list import present_documents
        from pipeline.purge.purged import PurgedDocuments, refuse_purged

        if PurgedDocuments.of(self.root).all():
            present = present_documents(self.workflow(name), self.resources, self.snapshots)
            refuse_purged(self.root, present.sources if present else (), action)

    def _refuse_purged_index(self, source: str | Path, name: str, of_workspace: str) -> None:
        """Raise UsageError, with nothing copied, if an index of LightRAG has a purged document."""
        from pipeline.purge.purged import PurgedDocuments
        from pipeline.runs.import_lightrag import open_index

        if not PurgedDocuments.of(self.root).all():
            return
        with open_index(source, of_workspace) as index:
            section = self.settings.lightrag.model_copy(update={"path": str(index), "files": ""})
            settings = self.settings.model_copy(update={"lightrag": section})
            replace(self, settings=settings)._refuse_purged(name, "import lightrag")

    def _asks_about_files(self, name: str) -> bool:
        """Check that the next run of the workflow would ask a chat model about files.

        A file that must be converted first counts too, as nobody knows its text.
        """
        from pipeline.models.base import ChatModel

        steps = self.workflow(name).steps
        if not any(step.verb.roles_of(ChatModel) for step in steps):
            return False
        for one in self.forecast(name):
            asks = one.planned.step.verb.roles_of(ChatModel) and one.estimate.calls[1] > 0
            if asks or one.to_convert or one.to_describe:
                return True
        return False

    def _refuse_workflow_without(self, verbs: Collection[str], name: str) -> str:
        """Return the first verb of the workflow that is one of these.

        Raises UsageError if there is none.
        """
        for step in self.workflow(name).steps:
            if step.verb.name in verbs:
                return step.verb.name
        wanted = " or ".join(sorted(verbs))
        raise UsageError(
            f"workflow '{name}': no step {wanted}; name a workflow that begins with it"
        )

    def import_triples(
        self,
        source: str | Path,
        columns: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
        is_master_data: bool = False,
    ) -> TableImport:
        """Put a table into the folder ``tables``, in place of one of that name.

        ``columns`` maps fields to names of columns, ``values`` fields to one value for all rows.
        A row of master data describes an entity by its id, name and aliases. Raises UsageError, and
        writes nothing, for a file without a row that can be used.
        """
        from pipeline.documents.own_tables import imported

        path = Path(source)
        named = imported.columns_of_import(
            self.root, path, columns or {}, values or {}, is_master_data
        )
        found = imported.describe_table(path, named)
        if not found.rows:
            reason = found.messages[0] if found.messages else f"{path.name}: no rows in it"
            raise UsageError(f"{reason}; nothing was written")
        with self.runs.alone():
            imported.write_table(self.root, path, named)
        return found

    @contextmanager
    def queried_table(
        self, url: str, query: str, table: str = "", columns: Mapping[str, str] | None = None
    ) -> Iterator[Path]:
        """Give a temporary file with the rows of a query in a Neo4j, for ``import_triples``.

        Its name is ``table``, or one that the same query always has. The user and the password are
        those of the settings ``cypher``. Raises UsageError for a query that writes, that has a
        mistake, or that gives no table of facts; raises StoreError if the server does not answer.
        """
        from pipeline.documents.own_tables import imported, queried
        from pipeline.runs.adapters import neo4j_source

        source = neo4j_source(self.settings, url)
        name = queried.name_table(url, query, table)
        with temporary_folder("graphmill-query-") as folder:
            path = folder / name
            named = imported.columns_of_import(self.root, path, columns or {}, {})
            # The user's own query is the whole statement. Nothing else is put into it.
            statement = cast("LiteralString", query)
            with source.rows(statement) as (names, rows):
                queried.write_rows(path, names, rows, named)
            yield path

    @contextmanager
    def with_table(
        self,
        source: str | Path,
        columns: Mapping[str, str],
        values: Mapping[str, str],
        is_master_data: bool = False,
    ) -> Iterator[tuple[TableImport, Self]]:
        """Give what the rows of a table are, and this project as if it had the table."""
        from pipeline.documents.own_tables import imported

        path = Path(source)
        named = imported.columns_of_import(self.root, path, columns, values, is_master_data)
        found = imported.describe_table(path, named)
        with imported.tried_folder(self.root, path, named) as tried:
            changed = replace(self, tables_root=tried)
            try:
                yield found, changed
            finally:
                changed.close()

    def import_ontology(self, source: str | Path, force: bool = False) -> OntologyImport:
        """Write ontology.yaml from RDF, a schema of neo4j-graphrag, or classes of pydantic.

        A Python file is executed. Raises UsageError if there is an ontology and ``force`` is false.
        """
        from pipeline.ontology.other_forms import import_ontology

        return import_ontology(Path(source), self.root, force)
