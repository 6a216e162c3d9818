"""report_communities_with_claims: reports on communities that weigh what is claimed of their members too."""

import pandas as pd

from pipeline.models.base import ChatModel, Tokenizer
from pipeline.prompts import Prompt
from pipeline.registry import verb
from pipeline.schemas import COMMUNITIES, COMMUNITY_REPORTS, COVARIATES, ENTITIES, REJECTS, RELATIONSHIPS
from pipeline.verbs.report_communities import REPORT_PROMPT, Asking, ReportParams, reports
from pipeline.verbs.report_context import Page, facts


@verb(
    inputs={
        "communities": COMMUNITIES,
        "entities": ENTITIES,
        "relationships": RELATIONSHIPS,
        "covariates": COVARIATES,
    },
    outputs={"community_reports": COMMUNITY_REPORTS, "rejects": REJECTS},
    placeholders=REPORT_PROMPT,
    libraries=("json-repair", "rs-bpe"),
)
def report_communities_with_claims(
    communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame,
    params: ReportParams,
    report: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As report_communities, with the claims whose subject (or else object) is a member. A community without claims is
    asked about in the very words of report_communities, so that its reply serves both."""
    known = facts(entities, relationships, covariates, Page(params.max_input_tokens, tokenizer))
    return reports(communities, known, Asking(params, report), chat)
