"""Learn whether a server accepts a JSON schema with limits on lists and texts (maxItems,
maxLength).

llama.cpp and vLLM accept them. Hosted models accept some keywords and refuse others with HTTP 400,
which costs nothing. The request is then repeated without limits, and all later requests of the
process are sent without them.
"""

import re
from dataclasses import dataclass, replace

from pipeline.models.base import ChatRequest
from pipeline.models.endpoint.client import Failure

REFUSALS = (400, 422)
_NAMES_THE_SCHEMA = re.compile(r"schema|grammar|response_format|maxitems|maxlength", re.IGNORECASE)


@dataclass
class SchemaLimits:
    """State of one server: ``refused`` if it has refused such limits in this process."""

    refused: bool = False

    def applied_to(self, request: ChatRequest) -> ChatRequest:
        """Return the request to send first, with limits in its schema if it has any."""
        if self.refused or request.bounded_format is None:
            return request
        return replace(request, response_format=request.bounded_format)

    def may_be_refused_by(self, failure: Failure) -> bool:
        """Check whether the same request may succeed without limits.

        Some servers do not say what they refuse, so every plain HTTP 400 counts.
        """
        if _NAMES_THE_SCHEMA.search(failure.message):
            return failure.reason != "content_filter"
        return failure.status in REFUSALS and failure.reason == "bad_request"

    def learn(self, failure: Failure, answered_without: bool) -> None:
        """Record whether the limits were refused.

        They were if the server says so, or if it answers the same request without them.
        """
        if answered_without or _NAMES_THE_SCHEMA.search(failure.message):
            self.refused = True
