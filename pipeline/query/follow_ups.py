"""Questions that partial answers have left open."""

from dataclasses import dataclass, field

from pipeline.models.parse_inquiry import PartialAnswer


@dataclass
class FollowUps:
    """``question``: the one that is asked already. Questions that differ by case only are the same."""

    question: str
    _open: list[tuple[float, int, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._seen.add(self.question.casefold())

    def add(self, answer: PartialAnswer) -> None:
        for place, question in enumerate(answer.follow_ups):
            if question.casefold() not in self._seen:
                self._seen.add(question.casefold())
                self._open.append((-answer.score, place, question))

    def best(self, most: int) -> list[str]:
        """Taken out: those that the best answers have left open, an answer's own in its order, ties by text."""
        self._open.sort()
        chosen, self._open = self._open[: max(most, 0)], self._open[max(most, 0) :]
        return [question for _, _, question in chosen]
