"""Examines whether a model's endpoint reports the tokens of its calls, on which costs and limits
depend."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.doctor.finding import Finding
from pipeline.errors import counted
from pipeline.models.base import ANSWERED, ESTIMATE_MARGIN, IdleListener, Usage

OF_A_SERVER = "let the server or gateway send usage; its own bill is the last word on the cost"
OF_A_FUNCTION = "let the function return a Reply with input_tokens and output_tokens"


@dataclass
class RecordedCalls(IdleListener):
    """Keeps the calls of an examination; it is a Listener."""

    usages: list[Usage] = field(default_factory=list)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        self.usages.append(usage)

    @property
    def last_is_reported(self) -> bool:
        """Tell whether the endpoint reported the tokens of the newest call."""
        return bool(self.usages) and not self.usages[-1].estimated

    def findings(self, area: str, name: str, is_function: bool = False) -> Iterator[Finding]:
        """Warn where the endpoint did not report the tokens of a call that it answered.

        ``is_function``: a Python function answered, and not a server.
        """
        answered = [usage for usage in self.usages if usage.outcome in ANSWERED]
        estimated = sum(usage.estimated for usage in answered)
        if estimated:
            source = "the function" if is_function else "the endpoint"
            calls = counted(len(answered), "call")
            fact = (
                f"{source} reports no token counts (usage) for {estimated} of {calls}: graphmill"
                f" counts them with its own tokenizer, and {ESTIMATE_MARGIN:g} times against limits"
            )
            action = OF_A_FUNCTION if is_function else OF_A_SERVER
            yield Finding(area, f"{name} token counts", "warning", fact, action)
