"""Documents in numbers: each paragraph is a text unit of its own, with names that some others have
too."""

from tests.projects import ProjectFolder
from tests.states import set_args

UNITS_OF_A_DOCUMENT = 10


def voyages(units: int, first: int = 0) -> dict[str, str]:
    """So many text units, numbered from ``first``, in documents of ten, where ``cut_by_paragraphs``
    cuts them."""
    told = [voyage(first + number) for number in range(units)]
    starts = range(0, units, UNITS_OF_A_DOCUMENT)
    return {
        f"log-{start:05}.txt": "\n\n".join(told[start : start + UNITS_OF_A_DOCUMENT])
        for start in starts
    }


def voyage(number: int) -> str:
    captain, port = (
        f"Captain Venn-{number // 5}",
        f"Port {chr(65 + number % 26)}{chr(97 + number // 26 % 26)}ella",
    )
    return (
        f"{captain} of ship {number} sailed from {port} to Tessing-{number // 4} Harbour with a"
        f" cargo of {7 * number + 1} barrels of salt. {captain} sold it to Merchant"
        f" Orren-{number // 3} for {3 * number} crowns."
    )


def cut_by_paragraphs(folder: ProjectFolder) -> None:
    set_args(folder, chunk_documents={"size": 100})
