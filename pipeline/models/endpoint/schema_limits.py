"""Learn whether a server takes a JSON schema with limits on lists and texts (maxItems, maxLength).

llama.cpp and vLLM take them. Hosted models take some keywords and refuse others with HTTP 400,
which costs nothing: the request is then asked once more without limits, and so are all later ones
of the process.
"""

import re
from dataclasses import dataclass, replace

from pipeline.models.base import ChatRequest
from pipeline.models.endpoint.client import Failure

REFUSALS = (400, 422)
_NAMES_THE_SCHEMA = re.compile(r"schema|grammar|response_format|maxitems|maxlength", re.IGNORECASE)


@dataclass
class SchemaLimits:
    """Keep whether one server takes such limits. ``refused``: it has refused them in this
    process."""

    refused: bool = False

    def applied_to(self, request: ChatRequest) -> ChatRequest:
        """Return the request as it is to be sent first: with limits in its schema, if there are
        any."""
        if self.refused or request.bounded_format is None:
            return request
        return replace(request, response_format=request.bounded_format)

    def may_be_refused_by(self, failure: Failure) -> bool:
        """Check whether the same request without limits may do better.

        Some servers do not say what they refuse, so every plain HTTP 400 counts.
        """
        if _NAMES_THE_SCHEMA.search(failure.message):
            return failure.reason != "content_filter"
        return failure.status in REFUSALS and failure.reason == "bad_request"

    def learn(self, failure: Failure, answered_without: bool) -> None:
        """Note that limits are refused: the server says so, or it answers the same request without
        them."""
        self.refused = (
            self.refused or answered_without or bool(_NAMES_THE_SCHEMA.search(failure.message))
        )
