"""compose_report_texts: what of a report on a community is embedded and searched."""

from typing import Literal

import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import COMMUNITY_REPORTS, TEXTS


class ReportTextParams(Params):
    """``text``: the whole report, its summary, or its title."""

    text: Literal["content", "summary", "title"] = "content"


@verb(inputs={"community_reports": COMMUNITY_REPORTS}, outputs={"report_texts": TEXTS}, rowwise="community_reports")
def compose_report_texts(
    community_reports: pd.DataFrame, params: ReportTextParams = ReportTextParams()
) -> pd.DataFrame:
    """The text of each report that ``text`` names."""
    return pd.DataFrame({"id": community_reports["id"], "text": community_reports[params.text]})
