"""The workspaces that may hold a document.

They are those of this project, in every database that its settings name or that it ever loaded.
"""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from pipeline.contract.views import split_name
from pipeline.errors import StoreError, UsageError
from pipeline.load.loader import Counts, LoadOptions, Owner, load
from pipeline.load.owners import of_others
from pipeline.load.projection import require_sources
from pipeline.purge.intention import WorkspaceContents
from pipeline.runs.adapters import EMBEDDED_FOLDER, neo4j_store, postgres_store
from pipeline.runs.services import Services
from pipeline.settings.schema import EMBEDDED, Settings
from pipeline.snapshots.store import Manifest
from pipeline.stores.base import Live, Store, alone
from pipeline.stores.loaded_workspaces import EMBEDDED as EMBEDDED_KIND
from pipeline.stores.loaded_workspaces import (
    NEO4J,
    POSTGRES,
    LoadedWorkspaces,
    Workspace,
    neo4j_address,
    postgres_address,
)
from pipeline.stores.postgres.embedded import stop_embedded
from pipeline.stores.postgres.schema import GRAPH_TABLES
from pipeline.stores.postgres.store import PostgresStore

DOOMED = "data/.postgres-purged"
Deleted = Mapping[str, Mapping[str, int]]
"""The number of deleted rows, by store and table."""


@dataclass(frozen=True)
class OwnWorkspace:
    """A workspace of this project, and the settings that open it."""

    workspace: Workspace
    live: Live
    settings: Settings


@dataclass(frozen=True)
class WorkspaceSearch:
    """The workspaces found in all databases that can be reached.

    - ``held`` are this project's.
    - ``unreached`` may hold the document, but cannot be read or written; each has the reason.
    - ``foreign`` are those of them that have another owner now, with that owner.
    - ``unowned`` were loaded by an earlier version, which did not note the owner.
    - ``elsewhere`` were loaded by another folder of the same owner, so their tables are not here.
    """

    held: Sequence[OwnWorkspace]
    unreached: Mapping[Workspace, str] = field(default_factory=dict)
    foreign: Mapping[Workspace, str] = field(default_factory=dict)
    unowned: Sequence[Workspace] = ()
    elsewhere: Sequence[OwnWorkspace] = ()

    @property
    def embedded(self) -> list[OwnWorkspace]:
        return [held for held in self.held if held.workspace.kind == EMBEDDED_KIND]


def look(project: Services, with_embedded: bool) -> WorkspaceSearch:
    """Search every database that can be reached for workspaces that may hold the document.

    ``with_embedded`` is true if the embedded PostgreSQL exists. Raises StoreError if a database
    that the settings name does not answer, DataError if it is not known which workspaces were
    loaded.
    """
    known = LoadedWorkspaces(project.root).all()
    held: list[OwnWorkspace] = []
    elsewhere: list[OwnWorkspace] = []
    unreached: dict[Workspace, str] = {}
    foreign: dict[Workspace, str] = {}
    unowned: list[Workspace] = []
    databases = dict(_reachable_databases(project, known, with_embedded))
    databases_of_settings = {_database_of(workspace) for workspace in project.loads_into}
    known_here = {*known, *project.loads_into}
    for (kind, address), settings in databases.items():
        try:
            lives = _workspaces(project, kind, settings)
        except StoreError as error:
            if (kind, address) in databases_of_settings:
                raise
            there = [each for each in known if _database_of(each) == (kind, address)]
            unreached |= dict.fromkeys(there, str(error))
            continue
        for name, live in lives.items():
            workspace = Workspace(kind, address, name)
            loaded_here = workspace in known_here or live.place == project.place
            # An earlier version did not note the owner.
            may_be_own = live.owner in ("", project.owner)
            own = OwnWorkspace(workspace, live, settings.model_copy(update={"workspace": name}))
            # The embedded PostgreSQL is a folder of the project: nobody else loads it.
            if kind == EMBEDDED_KIND or (loaded_here and may_be_own):
                held.append(own)
            elif live.owner == project.owner:
                elsewhere.append(own)
            elif not live.owner:
                unowned.append(workspace)
            elif workspace in known:
                foreign[workspace] = live.owner
    for workspace, owner in foreign.items():
        unreached[workspace] = f"belongs to owner {owner} by now"
    for workspace in _in_unnamed_databases(known, databases):
        unreached[workspace] = "the settings do not name its database"
    return WorkspaceSearch(held, unreached, foreign, unowned, elsewhere)


def _in_unnamed_databases(
    known: Sequence[Workspace], databases: Collection[tuple[str, str]]
) -> list[Workspace]:
    """Return the workspaces in none of the databases; the embedded one needs no name."""
    return [
        workspace
        for workspace in known
        if workspace.kind != EMBEDDED_KIND and _database_of(workspace) not in databases
    ]


def _database_of(workspace: Workspace) -> tuple[str, str]:
    return workspace.kind, workspace.address


def refuse_lost(project: Services, found: WorkspaceSearch) -> None:
    """Raise UsageError for a workspace that could not be loaded again."""
    for held in found.held:
        if held.live.workflow:
            _loadable_manifest(project, held.workspace, held.live.workflow)


def holds(project: Services, found: WorkspaceSearch, fits: Callable[[str], bool]) -> bool:
    """Return whether a workspace shows a document whose source fits."""
    # A graph in Neo4j has no sources of documents.
    with_documents = [held for held in found.held if held.workspace.kind != NEO4J]
    return any(_shows(project, held, fits) for held in with_documents)


def _shows(project: Services, held: OwnWorkspace, fits: Callable[[str], bool]) -> bool:
    """Return whether a workspace in PostgreSQL shows a document whose source fits."""
    with _open_postgres(project, held.settings, "postgres") as store:
        sources = (document.source for document in store.documents())
        return any(map(fits, sources))


def left_to_others(
    project: Services, found: WorkspaceSearch, fits: Callable[[str], bool]
) -> dict[Workspace, str]:
    """Return workspaces of other folders of the same owner that are left alone, and why.

    They show a document whose source fits, or they are graphs of which that cannot be known.
    """
    shows_document: dict[str, bool] = {}
    for held in found.elsewhere:
        if held.workspace.kind != NEO4J:
            shows_document[held.workspace.name] = _shows(project, held, fits)
    left_alone: dict[Workspace, str] = {}
    for held in found.elsewhere:
        # Without text units of the same workspace, it cannot be known what a graph shows.
        may_show = shows_document.get(held.workspace.name, True)
        if may_show:
            place = held.live.place or "which is not known"
            left_alone[held.workspace] = f"another folder of the same owner has loaded it, {place}"
    return left_alone


def shown(project: Services, found: WorkspaceSearch) -> tuple[WorkspaceContents, ...] | None:
    """Return what the embedded PostgreSQL must show again, or None if there is none."""
    if not (project.root / EMBEDDED_FOLDER).exists():
        return None
    contents: list[WorkspaceContents] = []
    for held in found.embedded:
        rows = {table: state.rows for table, state in held.live.tables.items()}
        name, workflow = held.workspace.name, held.live.workflow
        contents.append(WorkspaceContents(name, workflow, _graph_store_of(held), rows))
    return tuple(contents)


def remake_embedded(
    project: Services, again: Sequence[WorkspaceContents], found: WorkspaceSearch
) -> dict[Workspace, Deleted]:
    """Build the embedded PostgreSQL again, because its files keep deleted rows, and load what it
    showed.

    Return how many rows each workspace has fewer than before.
    """
    folder, doomed = project.root / EMBEDDED_FOLDER, project.root / DOOMED
    project.stop_stores()
    stop_embedded(folder)
    shutil.rmtree(doomed, ignore_errors=True)
    if folder.exists():
        # A server must not find half of its files if this is killed.
        folder.replace(doomed)
        shutil.rmtree(doomed)
    settings = _with_postgres(project.settings, EMBEDDED)
    cleaned: dict[Workspace, Deleted] = {}
    for contents in again:
        workspace = Workspace(EMBEDDED_KIND, "", contents.workspace)
        own = settings.model_copy(update={"workspace": contents.workspace})
        partner = _partner(found, workspace) if contents.graph == NEO4J else None
        with _open_postgres(project, own, contents.graph) as store, _open_neo4j(partner) as graphs:
            counts = _load_again(project, workspace, contents.workflow, [store, *graphs])
            states = store.table_states()
        # The new database counts no deleted rows, so the numbers of rows are compared.
        n_fewer: dict[str, int] = {}
        for table, rows_then in contents.rows.items():
            rows_now = states[table].rows if table in states else 0
            n_fewer[table] = max(0, rows_then - rows_now)
        cleaned[workspace] = {POSTGRES: n_fewer}
        if partner:
            cleaned[partner.workspace] = _deleted_rows(counts, only=NEO4J)
    return cleaned


def clean(
    project: Services, found: WorkspaceSearch, done: Sequence[Workspace]
) -> Iterator[tuple[Workspace, Deleted]]:
    """Load every other workspace again from its workflow's newest tables.

    Yield each workspace with its deleted rows. ``done`` has the workspaces that are finished
    already.
    """
    over = set(done)
    # Graphs come last: most are loaded together with the workspace of their text units.
    by_kind = sorted(found.held, key=lambda held: (held.workspace.kind == NEO4J, held.workspace))
    for held in by_kind:
        if held.workspace in over or held.workspace.kind == EMBEDDED_KIND:
            continue
        if held.workspace.kind == NEO4J:
            yield held.workspace, _clean_graph(project, held)
            continue
        graph = _graph_store_of(held)
        partner = _partner(found, held.workspace) if graph == NEO4J else None
        with _open_postgres(project, held.settings, graph) as store, _open_neo4j(partner) as graphs:
            counts = _load_again(project, held.workspace, held.live.workflow, [store, *graphs])
        yield held.workspace, _deleted_rows(counts, only=POSTGRES)
        if partner:
            over.add(partner.workspace)
            yield partner.workspace, _deleted_rows(counts, only=NEO4J)


def _clean_graph(project: Services, held: OwnWorkspace) -> Deleted:
    """Clean a graph in Neo4j whose text units are in another database by now."""
    with _open_neo4j(held) as [store]:
        if not held.live.workflow:
            # A first load was interrupted: nobody has read it.
            with alone([store]):
                if of_others([store], project.owner):
                    return {}
                return {NEO4J: store.drop()}
        counts = _load_again(project, held.workspace, held.live.workflow, [store])
        return _deleted_rows(counts, only=NEO4J)


def _load_again(
    project: Services, workspace: Workspace, workflow: str, stores: Sequence[Store]
) -> Mapping[str, Mapping[str, Counts]]:
    """Load the newest tables, and replace vectors of another model: their tables are gone."""
    manifest = _loadable_manifest(project, workspace, workflow)
    options = LoadOptions(replace=True, re_embed=True)
    owner = Owner(project.owner, project.place)
    return load(
        manifest,
        project.snapshots,
        stores,
        project.settings.stores.neo4j.max_types,
        options,
        owner=owner,
    )


def _loadable_manifest(project: Services, workspace: Workspace, workflow: str) -> Manifest:
    manifest = project.snapshots.manifest(workflow)
    _, view = split_name(workflow)
    try:
        require_sources(manifest.tables)
    except UsageError:
        if view:
            raise UsageError(
                f"purge: {workspace} shows view '{view}', which is not made any more, so it cannot"
                f" be had back without the document; 'graphmill workspace drop {workspace.name}',"
                f" or have serve.views.{view} again and 'graphmill run', then purge again"
            ) from None
        raise UsageError(
            f"purge: {workspace} shows workflow '{workflow}', which has no tables to load any more,"
            f" so it cannot be had back without the document; 'graphmill index {workflow}', or"
            f" 'graphmill workspace drop {workspace.name}', then purge again"
        ) from None
    return manifest


def _deleted_rows(
    counts: Mapping[str, Mapping[str, Counts]], only: str
) -> dict[str, dict[str, int]]:
    """Return the numbers of deleted rows of the store ``only``, by store and table."""
    counts_of_store = counts.get(only, {})
    deleted = {table: count["deleted"] for table, count in counts_of_store.items()}
    return {only: deleted}


def _graph_store_of(held: OwnWorkspace) -> str:
    """Return the kind of store that has the graph of a workspace.

    Its load has filled the graph's tables in PostgreSQL, or it has not.
    """
    if not held.live.tables:
        return held.settings.stores.graph
    return "postgres" if set(GRAPH_TABLES) & set(held.live.tables) else NEO4J


def _partner(found: WorkspaceSearch, workspace: Workspace) -> OwnWorkspace | None:
    """Return the graph in Neo4j that belongs to the workspace, if it has one."""
    for held in found.held:
        if held.workspace.kind == NEO4J and held.workspace.name == workspace.name:
            return held
    return None


def _open_postgres(project: Services, settings: Settings, graph: str) -> closing[PostgresStore]:
    stores = settings.stores.model_copy(update={"graph": graph})
    with_graph = settings.model_copy(update={"stores": stores})
    return closing(postgres_store(with_graph, project.root))


@contextmanager
def _open_neo4j(held: OwnWorkspace | None) -> Iterator[list[Store]]:
    """Open a graph in Neo4j while the block runs; yield a list of one store, or of none."""
    if held is None:
        yield []
        return
    with closing(neo4j_store(held.settings)) as store:
        yield [store]


def _workspaces(project: Services, kind: str, settings: Settings) -> Mapping[str, Live]:
    store = neo4j_store(settings) if kind == NEO4J else postgres_store(settings, project.root)
    with closing(store):
        return store.workspaces()


def _reachable_databases(
    project: Services, known: Sequence[Workspace], with_embedded: bool
) -> Iterator[tuple[tuple[str, str], Settings]]:
    """Yield (kind, address) of each database, with settings that reach it.

    They are the databases that settings name, and others on the same servers.
    """
    settings = project.settings
    if with_embedded and (project.root / EMBEDDED_FOLDER).exists():
        yield (EMBEDDED_KIND, ""), _with_postgres(settings, EMBEDDED)
    url = settings.stores.postgres.url
    if url != EMBEDDED:
        own = postgres_address(url)
        yield (POSTGRES, own), settings
        for workspace in known:
            address = workspace.address
            if workspace.kind != POSTGRES or address == own:
                continue
            if _server(address) == _server(own):
                yield (POSTGRES, address), _with_postgres(settings, _of_database(url, address))
    neo4j = settings.stores.neo4j
    own = neo4j_address(neo4j.uri, neo4j.database)
    # A kind of graph that is missing here would keep what a purge says is deleted.
    match settings.stores.graph:
        case "postgres":
            pass
        case "neo4j":
            yield (NEO4J, own), settings
        case _ as other:
            assert_never(other)
    for workspace in known:
        address = workspace.address
        if workspace.kind == NEO4J and _server(address) == _server(own):
            section = neo4j.model_copy(update={"database": _database_name(address)})
            stores = settings.stores.model_copy(update={"neo4j": section})
            yield (NEO4J, address), settings.model_copy(update={"stores": stores})


def _server(address: str) -> str:
    """Return the part of an address before the name of the database."""
    server, _, _ = address.rpartition("/")
    return server


def _database_name(address: str) -> str:
    _, _, name = address.rpartition("/")
    return name


def _of_database(url: str, address: str) -> str:
    """Return the URL of another database on the same server."""
    from sqlalchemy.engine import make_url

    other = make_url(url).set(database=_database_name(address))
    return other.render_as_string(hide_password=False)


def _with_postgres(settings: Settings, url: str) -> Settings:
    postgres = settings.stores.postgres.model_copy(update={"url": url})
    stores = settings.stores.model_copy(update={"postgres": postgres})
    return settings.model_copy(update={"stores": stores})
