"""keep_reports, report_new_communities: reports of another index, and on its new communities."""

import pandas as pd

from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    ENTITIES,
    REJECTS,
    RELATIONSHIPS,
)
from pipeline.models.base import ChatModel, Tokenizer
from pipeline.verbs.add_tables import unite
from pipeline.verbs.kept_reports import KeptReports, build_report
from pipeline.verbs.report_communities import (
    REPORT_PROMPT,
    ReportOutcome,
    ReportQuestion,
    RequestParams,
    add_source_units,
    list_sources,
    write_reports,
)
from pipeline.verbs.report_context import ContextPage, collect_facts

NOTHING_KEPT = KeptReports(0, ())
READ = {
    "imported_reports": COMMUNITY_REPORTS,
    "communities": COMMUNITIES,
    "entities": ENTITIES,
    "relationships": RELATIONSHIPS,
    "covariates": COVARIATES,
}


@verb(inputs=READ, outputs={"community_reports": COMMUNITY_REPORTS, "rejects": REJECTS})
def keep_reports(
    imported_reports: pd.DataFrame,
    communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the imported reports on communities with the same level and members, and rejects.

    ``weight`` and ``text_unit_ids`` are those of report_communities_with_claims. A report whose
    community has changed is left out, and is a reject. No model is asked.
    """
    kept, rejects = _choose(imported_reports, communities)
    sources = list_sources(entities, relationships, covariates)
    return add_source_units(kept, communities, sources), rejects


@verb(
    inputs=READ,
    outputs={"community_reports": COMMUNITY_REPORTS, "rejects": REJECTS},
    placeholders=REPORT_PROMPT,
    libraries=("json-repair", "rs-bpe"),
)
def report_new_communities(
    imported_reports: pd.DataFrame,
    communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame,
    params: RequestParams,
    report: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the reports of keep_reports, and reports on all other communities.

    The model is asked about the others alone, as by report_communities_with_claims.
    """
    kept, changed = _choose(imported_reports, communities)
    page = ContextPage(params.max_input_tokens, tokenizer)
    known = collect_facts(entities, relationships, covariates, page)
    outcomes = {row["id"]: ReportOutcome(build_report(row)) for row in kept.to_dict("records")}
    found, faults = write_reports(
        communities, known, ReportQuestion(params, report), chat, NOTHING_KEPT, outcomes
    )
    # The text of an imported report is that which was paid for.
    asked = found[~found["id"].isin(kept["id"])]
    reports = unite(kept, asked)
    sources = list_sources(entities, relationships, covariates)
    rejects = unite(changed, faults)
    return add_source_units(reports, communities, sources), rejects


def _choose(imported: pd.DataFrame, communities: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the reports that stay, with the present parents and weights, and rejects of others."""
    is_there = imported["id"].isin(communities["id"])
    by_id = communities.set_index("id")
    kept = imported[is_there]
    ids = kept["id"]
    weights = ids.map(by_id["text_unit_ids"]).map(len).astype("int64")
    kept = kept.assign(parent=ids.map(by_id["parent"]), weight=weights)
    rejects = [
        make_reject(id, "changed", "a report on a community that has changed", "row")
        for id in imported["id"][~is_there]
    ]
    return kept, REJECTS.frame(rejects)
