"""Whether a model's endpoint reports the tokens of its calls: costs and limits rest on these counts."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.doctor.finding import Finding
from pipeline.errors import counted
from pipeline.models.base import ANSWERED, ESTIMATE_MARGIN, Usage


@dataclass
class HeardCalls:
    """A Listener that keeps the calls of an examination as they are counted."""

    usages: list[Usage] = field(default_factory=list)

    def begun(self, expected: Usage) -> str:
        return ""

    def ended(self, usage: Usage, call: str | None = None) -> None:
        self.usages.append(usage)

    def finished(self, rows: int) -> None:
        return

    def told(self, fact: str) -> None:
        return

    def reserve(self, tokens: int, cost: float | None) -> None:
        return

    @property
    def last_is_reported(self) -> bool:
        """Whether the endpoint reported the tokens of the newest call."""
        return bool(self.usages) and not self.usages[-1].estimated

    def findings(self, area: str, name: str) -> Iterator[Finding]:
        """Warn where the endpoint did not report the tokens of a call that it answered."""
        answered = [usage for usage in self.usages if usage.outcome in ANSWERED]
        estimated = sum(usage.estimated for usage in answered)
        if estimated:
            fact = (
                f"the endpoint reports no token counts (usage) for {estimated} of {counted(len(answered), 'call')}: "
                f"graphmill counts them with its own tokenizer, and {ESTIMATE_MARGIN:g} times against limits"
            )
            action = "let the server or gateway send usage; its own bill is the last word on the cost"
            yield Finding(area, f"{name} token counts", "warning", fact, action)
