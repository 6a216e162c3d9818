"""The workspaces that may hold a document: those of this project in every database that its
settings name, or that it has ever loaded."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field

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
"""Store -> table -> rows deleted."""


@dataclass(frozen=True)
class OwnWorkspace:
    """A workspace of this project, and the settings that open it."""

    workspace: Workspace
    live: Live
    settings: Settings


@dataclass(frozen=True)
class WorkspaceSearch:
    """``unreached``: workspaces that may hold the document, and why nobody can look, or may write;
    ``foreign``: those of them that are another owner's by now, and whose; ``unowned``: those that
    an earlier version has loaded, for whom is not known; ``elsewhere``: those that another folder
    of the same owner has loaded, whose tables are not this project's."""

    held: Sequence[OwnWorkspace]
    unreached: Mapping[Workspace, str] = field(default_factory=dict)
    foreign: Mapping[Workspace, str] = field(default_factory=dict)
    unowned: Sequence[Workspace] = ()
    elsewhere: Sequence[OwnWorkspace] = ()

    @property
    def embedded(self) -> list[OwnWorkspace]:
        return [held for held in self.held if held.workspace.kind == EMBEDDED_KIND]


def look(project: Services, with_embedded: bool) -> WorkspaceSearch:
    """Ask every database that can be reached. ``with_embedded``: whether the embedded one is there
    to be asked.

    Raises StoreError where one that the settings name does not answer, DataError where it is not
    known which have been loaded.
    """
    known = LoadedWorkspaces(project.root).all()
    held: list[OwnWorkspace] = []
    elsewhere: list[OwnWorkspace] = []
    unreached: dict[Workspace, str] = {}
    foreign: dict[Workspace, str] = {}
    unowned: list[Workspace] = []
    databases = dict(_databases(project, known, with_embedded))
    named = {(workspace.kind, workspace.address) for workspace in project.loads_into}
    for (kind, address), settings in databases.items():
        try:
            lives = _workspaces(project, kind, settings)
        except StoreError as error:
            if (kind, address) in named:
                raise
            unreached |= {
                workspace: str(error)
                for workspace in known
                if (workspace.kind, workspace.address) == (kind, address)
            }
            continue
        for name, live in lives.items():
            workspace = Workspace(kind, address, name)
            loaded_here = workspace in {*known, *project.loads_into} or live.place == project.place
            opened_by = settings.model_copy(update={"workspace": name})
            if kind == EMBEDDED_KIND or (loaded_here and live.owner in ("", project.owner)):
                held.append(OwnWorkspace(workspace, live, opened_by))
            elif live.owner == project.owner:
                elsewhere.append(OwnWorkspace(workspace, live, opened_by))
            elif not live.owner:
                unowned.append(workspace)
            elif workspace in known:
                foreign[workspace] = live.owner
    unreached |= {
        workspace: f"belongs to owner {owner} by now" for workspace, owner in foreign.items()
    }
    for workspace in known:
        if workspace.kind != EMBEDDED_KIND and (workspace.kind, workspace.address) not in databases:
            unreached[workspace] = "the settings do not name its database"
    return WorkspaceSearch(held, unreached, foreign, unowned, elsewhere)


def refuse_lost(project: Services, found: WorkspaceSearch) -> None:
    """Raises UsageError for a workspace that could not be loaded again."""
    for held in found.held:
        if held.live.workflow:
            _manifest(project, held.workspace, held.live.workflow)


def holds(project: Services, found: WorkspaceSearch, fits: Callable[[str], bool]) -> bool:
    """Whether a workspace shows a document whose source fits."""
    return any(_shows(project, held, fits) for held in found.held if held.workspace.kind != NEO4J)


def _shows(project: Services, held: OwnWorkspace, fits: Callable[[str], bool]) -> bool:
    with _opened(project, held.settings, "postgres") as store:
        return any(fits(document.source) for document in store.documents())


def left_to_others(
    project: Services, found: WorkspaceSearch, fits: Callable[[str], bool]
) -> dict[Workspace, str]:
    """The workspaces of other folders of the same owner that show a document whose source fits, or
    a graph of which that cannot be told, and why they are left."""
    texts = {held.workspace.name: held for held in found.elsewhere if held.workspace.kind != NEO4J}
    shows = {name: _shows(project, held, fits) for name, held in texts.items()}
    return {
        held.workspace: (
            "another folder of the same owner has loaded it,"
            f" {held.live.place or 'which is not known'}"
        )
        for held in found.elsewhere
        if shows.get(held.workspace.name, True)
    }


def shown(project: Services, found: WorkspaceSearch) -> tuple[WorkspaceContents, ...] | None:
    """What the embedded PostgreSQL is to show again; None where there is none."""
    if not (project.root / EMBEDDED_FOLDER).exists():
        return None
    return tuple(
        WorkspaceContents(
            held.workspace.name,
            held.live.workflow,
            _graph(held),
            {table: state.rows for table, state in held.live.tables.items()},
        )
        for held in found.embedded
    )


def remake_embedded(
    project: Services, again: Sequence[WorkspaceContents], found: WorkspaceSearch
) -> dict[Workspace, Deleted]:
    """The embedded PostgreSQL keeps deleted rows in its files: make it anew, and load what it
    showed. Workspace -> how many rows there are fewer."""
    folder, doomed = project.root / EMBEDDED_FOLDER, project.root / DOOMED
    project.stop_stores()
    stop_embedded(folder)
    shutil.rmtree(doomed, ignore_errors=True)
    if folder.exists():
        folder.replace(doomed)  # a server does not start over half of its files
        shutil.rmtree(doomed)
    settings = _with_postgres(project.settings, EMBEDDED)
    cleaned: dict[Workspace, Deleted] = {}
    for each in again:
        workspace = Workspace(EMBEDDED_KIND, "", each.workspace)
        own = settings.model_copy(update={"workspace": each.workspace})
        partner = _partner(found, workspace) if each.graph == NEO4J else None
        with _opened(project, own, each.graph) as store, _neo4j(partner) as graphs:
            counts = _load(project, workspace, each.workflow, [store, *graphs])
            now = {table: state.rows for table, state in store.table_states().items()}
        fewer = {table: max(0, rows - now.get(table, 0)) for table, rows in each.rows.items()}
        cleaned[workspace] = {POSTGRES: fewer}
        if partner:
            cleaned[partner.workspace] = _deleted(counts, only=NEO4J)
    return cleaned


def clean(
    project: Services, found: WorkspaceSearch, done: Sequence[Workspace]
) -> Iterator[tuple[Workspace, Deleted]]:
    """Load every other workspace again from its workflow's newest tables: workspace, and rows
    deleted. ``done``: those that have been."""
    over = set(done)
    for held in sorted(found.held, key=lambda held: (held.workspace.kind == NEO4J, held.workspace)):
        if held.workspace in over or held.workspace.kind == EMBEDDED_KIND:
            continue
        if held.workspace.kind == NEO4J:
            yield held.workspace, _clean_graph(project, held)
            continue
        graph = _graph(held)
        partner = _partner(found, held.workspace) if graph == NEO4J else None
        with _opened(project, held.settings, graph) as store, _neo4j(partner) as graphs:
            counts = _load(project, held.workspace, held.live.workflow, [store, *graphs])
        yield held.workspace, _deleted(counts, only=POSTGRES)
        if partner:
            over.add(partner.workspace)
            yield partner.workspace, _deleted(counts, only=NEO4J)


def _clean_graph(project: Services, held: OwnWorkspace) -> Deleted:
    """A graph whose text units are elsewhere by now."""
    with _neo4j(held) as [store]:
        if not held.live.workflow:  # a first load that was cut off: nobody has read it
            with alone([store]):
                return {} if of_others([store], project.owner) else {NEO4J: store.drop()}
        return _deleted(_load(project, held.workspace, held.live.workflow, [store]), only=NEO4J)


def _load(
    project: Services, workspace: Workspace, workflow: str, stores: Sequence[Store]
) -> Mapping[str, Mapping[str, Counts]]:
    """Vectors of another model are replaced too: the tables of then are gone."""
    manifest = _manifest(project, workspace, workflow)
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


def _manifest(project: Services, workspace: Workspace, workflow: str) -> Manifest:
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


def _deleted(counts: Mapping[str, Mapping[str, Counts]], only: str) -> dict[str, dict[str, int]]:
    return {only: {table: count["deleted"] for table, count in counts.get(only, {}).items()}}


def _graph(held: OwnWorkspace) -> str:
    """Where the graph of a workspace is: its load has filled the tables of it, or has not."""
    if not held.live.tables:
        return held.settings.stores.graph
    return "postgres" if set(GRAPH_TABLES) & set(held.live.tables) else NEO4J


def _partner(found: WorkspaceSearch, workspace: Workspace) -> OwnWorkspace | None:
    """The workspace's graph in Neo4j."""
    graphs = [
        held
        for held in found.held
        if held.workspace.kind == NEO4J and held.workspace.name == workspace.name
    ]
    return graphs[0] if graphs else None


def _opened(project: Services, settings: Settings, graph: str) -> closing[PostgresStore]:
    stores = settings.stores.model_copy(update={"graph": graph})
    return closing(postgres_store(settings.model_copy(update={"stores": stores}), project.root))


@contextmanager
def _neo4j(held: OwnWorkspace | None) -> Iterator[list[Store]]:
    """None or one."""
    with closing(neo4j_store(held.settings)) if held else nullcontext() as store:
        yield [store] if store else []


def _workspaces(project: Services, kind: str, settings: Settings) -> Mapping[str, Live]:
    with closing(
        neo4j_store(settings) if kind == NEO4J else postgres_store(settings, project.root)
    ) as store:
        return store.workspaces()


def _databases(
    project: Services, known: Sequence[Workspace], with_embedded: bool
) -> Iterator[tuple[tuple[str, str], Settings]]:
    """(kind, address) -> settings that reach it: those that are set, and others on their
    servers."""
    settings = project.settings
    if with_embedded and (project.root / EMBEDDED_FOLDER).exists():
        yield (EMBEDDED_KIND, ""), _with_postgres(settings, EMBEDDED)
    url = settings.stores.postgres.url
    if url != EMBEDDED:
        own = postgres_address(url)
        yield (POSTGRES, own), settings
        for workspace in known:
            if (
                workspace.kind == POSTGRES
                and workspace.address != own
                and _server(workspace.address) == _server(own)
            ):
                yield (
                    (POSTGRES, workspace.address),
                    _with_postgres(settings, _of_database(url, workspace.address)),
                )
    neo4j = settings.stores.neo4j
    own = neo4j_address(neo4j.uri, neo4j.database)
    if settings.stores.graph == NEO4J:
        yield (NEO4J, own), settings
    for workspace in known:
        if workspace.kind == NEO4J and _server(workspace.address) == _server(own):
            section = neo4j.model_copy(update={"database": workspace.address.rpartition("/")[2]})
            stores = settings.stores.model_copy(update={"neo4j": section})
            yield (NEO4J, workspace.address), settings.model_copy(update={"stores": stores})


def _server(address: str) -> str:
    return address.rpartition("/")[0]


def _of_database(url: str, address: str) -> str:
    from sqlalchemy.engine import make_url

    return (
        make_url(url).set(database=address.rpartition("/")[2]).render_as_string(hide_password=False)
    )


def _with_postgres(settings: Settings, url: str) -> Settings:
    postgres = settings.stores.postgres.model_copy(update={"url": url})
    return settings.model_copy(
        update={"stores": settings.stores.model_copy(update={"postgres": postgres})}
    )
