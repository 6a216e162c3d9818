"""People of one name, told apart by what the text says right behind it: an epithet, or the years of
a life.

Charles I, Duke of Bourbon, and Charles I, King of Spain, are two; so are John Adams (1735–1826) and
John Adams (born 1947). Nothing is made of a name alone: where no text says more, it is one entity.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pandas as pd
import regex
from rapidfuzz import fuzz, process

from pipeline.resolution.spelling import RANKS
from pipeline.text.ids import match_key

_BEFORE_GIVEN_NAMES = """
    king queen emperor empress prince princess count countess duke duchess margrave landgrave elector pope sultan
    archduke archduchess
""".split()  # noqa: E501
_RANK = f"(?i:{'|'.join(RANKS)})"
_WORD = r"\p{Lu}[\p{L}\p{M}'’]*+"
_PLACE = rf"{_WORD}(?:[ ]?-[ ]?{_WORD}|[ ]{_WORD}){{0,3}}+"
_EPITHET = regex.compile(
    rf"[ ]?,[ ](?:(?P<ordinal>\d+)(?:st|nd|rd|th)[ ])?(?:{_WORD}[ ]){{0,2}}?{_RANK}[ ](?:Palatine[ ])?of[ ](?:the[ ])?"  # noqa: E501
    rf"(?P<place>{_PLACE})|[ ]?,[ ](?P<emperor>Holy[ ]Roman[ ]Emperor)"
    rf"|[ ](?P<called>the[ ](?!{_RANK}\b)\p{{Lu}}\p{{Ll}}+)(?![\p{{L}}-]|[ ]\p{{Lu}})"
)
_DATE = r"(?:c\.|ca\.|circa)?[ ]?(?:\d{1,2}[ ]\p{L}+,?[ ]|\p{Lu}\p{L}+[ ](?:\d{1,2},[ ])?)?"
_LIFE = regex.compile(
    rf"[ ]?\([ ]?(?:(?:born|b\.)[ ]{_DATE}(?P<born>\d{{3,4}})|(?:died|d\.)[ ]{_DATE}(?P<died>\d{{3,4}})"  # noqa: E501
    rf"|{_DATE}(?P<from>\d{{3,4}})[ ]?[-–—][ ]?{_DATE}(?P<to>\d{{3,4}}))(?=[ ,;)])"
)
_BOUNDARY = (
    rf"^|[\n.;:!?\"“«]\s*|\([ ]?|\b(?i:{'|'.join(_BEFORE_GIVEN_NAMES)})[ ]|\b(?:Sir|Saint|St\.|Dr\.)[ ]"  # noqa: E501
    rf"|(?<!\p{{L}})(?!{_RANK}\b)\p{{Ll}}{{3,}}[ ]of[ ]"
)
_IN_SENTENCE = (
    r"(?<![\p{L}\p{N}'’-])(?!(?:of|de|d|der|den|di|du|van|von|zu|y|bin|ibn)[ ])(?:\p{Ll}+|\d+)[ ]"
)
_WHOLE = regex.compile(rf"(?:{_BOUNDARY}|{_IN_SENTENCE})$")
"""What may stand before a name that is not the end of a longer one."""
_WHOLE_WORD = regex.compile(rf"(?:{_BOUNDARY}|(?!(?:and|or)[ ]){_IN_SENTENCE})$")
"""Before one of a single word: Thurn and Taxis is one."""
_WHOLE_WORD_WITH_YEARS = regex.compile(rf"(?:{_BOUNDARY})$")
"""Before one of a single word that has nothing but years: "western Iran (935–976)"."""
_TITLE = regex.compile(rf"(?:\S+[ ])?{_RANK}[ ](?:of|Palatine)\b")
"""The beginning of what many are called one after the other."""
_NUMBERED = regex.compile(rf"((?:{_WORD}[ ]){{1,3}}[IVX]+)(.+)")
_OF_PLACE = regex.compile(rf"[ ]of[ ](?:the[ ])?(?P<place>{_PLACE})")
_OF = regex.compile(r" of(?= .)")
_DASH = regex.compile(r"[ ]?-[ ]?")
_NO_PEOPLE = frozenset(
    "EVENT LOCATION PLACE GEO CITY COUNTRY ORGANIZATION ORGANISATION COMPANY WORK CONCEPT".split()
)
LONGEST_LIFE, LONGEST_NAME = 115, 200
SPELLED_ALIKE = 85
SAME_YEAR = 2
"""Years by which two texts may differ about one birth or death."""


@dataclass(frozen=True, order=True)
class Bearer:
    """What a text says of the one whom it calls by a name. ``suffix``: as it is written behind the
    name; ``place`` and ``ordinal``: of an epithet, the place as a match key; ``born`` and ``died``:
    years, 0 where none is said."""

    suffix: str
    place: str = ""
    ordinal: str = ""
    born: int = 0
    died: int = 0

    def clashes(self, other: "Bearer") -> bool:
        """Whether the two cannot be one person. One year that agrees is enough against another:
        that may be of a reign."""
        if self.place and other.place and not self._near(other):
            return True
        if self.ordinal and other.ordinal and self.ordinal != other.ordinal:
            return True
        years = [(a, b) for a, b in ((self.born, other.born), (self.died, other.died)) if a and b]
        lives = ((self.born, other.died), (other.born, self.died))
        apart = all(abs(a - b) > SAME_YEAR for a, b in years) if years else False
        return apart or any(a and b and not -SAME_YEAR <= b - a <= LONGEST_LIFE for a, b in lives)

    @property
    def facts(self) -> "tuple[Bearer, ...]":
        """What is said, one by one: two clash where one fact of the one clashes with the other."""
        said = (
            Bearer("", self.place),
            Bearer("", ordinal=self.ordinal),
            Bearer("", born=self.born, died=self.died),
        )
        return tuple(fact for fact in said if fact != NOTHING_SAID)

    def _near(self, other: "Bearer") -> bool:
        """Hesse and Hesse-Kassel may be one, and are Wittenberg and Wittemberg; Bourbon and Spain
        are two."""
        one, two = self.place.split(), other.place.split()
        alike = fuzz.ratio(self.place, other.place) >= SPELLED_ALIKE
        return alike or one == two[: len(one)] or two == one[: len(two)]


NOTHING_SAID = Bearer("")


def is_nobody(types: pd.Series) -> "pd.Series[bool]":
    """Types of what may have years, and places, but is no person."""
    return types.str.upper().isin(_NO_PEOPLE)


def bearers_of(
    names: Mapping[str, str], text: str, found: Iterable[tuple[int, Bearer]]
) -> Iterator[tuple[str, Bearer]]:
    """Match keys of names, and what a text says of those whom it calls so. ``names``: those in it
    -> their match keys; ``found``: what the text says, and where. Where it says nothing behind a
    name, a fuller form does: a text that has Charles I of England means him by Charles I."""
    folded = (
        {name.casefold(): key for name, key in names.items() if not _TITLE.match(name)}
        if found
        else {}
    )
    said = [
        (folded[name], one)
        for place, one in found
        if (name := _name_before(text, place, folded, one))
    ]
    told = {key for key, _ in said}
    yield from said
    yield from (form for name in names if (form := numbered(name)) and form[0] not in told)


def people(counts: Mapping[Bearer, int]) -> dict[Bearer, Bearer]:
    """Each bearer of a name -> one for all that are the same person; empty where all may be one.
    ``counts``: how often each is named."""
    surest_first = sorted(counts, key=lambda one: (not one.place, -counts[one], one))
    if _may_be_one(surest_first):
        return {}
    found: list[Person] = []
    of: dict[tuple[str, str | int], list[int]] = defaultdict(list)
    near = _near_places({bearer.place for bearer in counts if bearer.place})
    for bearer in surest_first:
        maybe = sorted({number for key in _sought(bearer, near) for number in of[key]})
        number = next((number for number in maybe if found[number].fits(bearer)), len(found))
        if number == len(found):
            found.append(Person())
        found[number].add(bearer)
        for key in _told(bearer):
            if number not in of[key][-1:]:
                of[key].append(number)
    return {bearer: person.bearers[0] for person in found for bearer in person.bearers}


@dataclass
class Person:
    """Bearers who are one. ``facts``: what is said of all of them, each once."""

    bearers: list[Bearer] = field(default_factory=list)
    facts: dict[Bearer, None] = field(default_factory=dict)

    def add(self, bearer: Bearer) -> None:
        self.bearers.append(bearer)
        self.facts |= dict.fromkeys(bearer.facts)

    def clashes(self, bearer: Bearer) -> bool:
        return any(map(bearer.clashes, self.facts))

    def fits(self, bearer: Bearer) -> bool:
        """Whether something says that it is this one, and nothing that it is not."""
        alike = any(
            (fact.place and bearer.place)
            or (fact.born and bearer.born)
            or (fact.died and bearer.died)
            for fact in self.facts
        )
        return alike and not self.clashes(bearer)


def _may_be_one(bearers: Iterable[Bearer]) -> bool:
    everybody = Person()
    for bearer in bearers:
        if everybody.clashes(bearer):
            return False
        everybody.add(bearer)
    return True


def _told(bearer: Bearer) -> Iterator[tuple[str, str | int]]:
    """By what a person may be found."""
    if bearer.place:
        yield "place", bearer.place
    if bearer.born:
        yield "born", bearer.born
    if bearer.died:
        yield "died", bearer.died


def _sought(bearer: Bearer, near: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str | int]]:
    """By what everybody is found who may be this one: of two who agree in nothing the one is not
    the other."""
    for kind, value in _told(bearer):
        if isinstance(value, str):
            yield from ((kind, place) for place in near[value])
        else:
            yield from ((kind, year) for year in range(value - SAME_YEAR, value + SAME_YEAR + 1))


def _near_places(places: Collection[str]) -> dict[str, set[str]]:
    """Each place -> those that may be the same, itself among them."""
    named = sorted(places)
    words = {place: place.split() for place in named}
    beginning: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for place, parts in words.items():
        for end in range(len(parts) + 1):
            beginning[tuple(parts[:end])].append(place)
    near = {place: set(beginning[tuple(parts)]) for place, parts in words.items()}
    for place, longer in [(place, longer) for place, found in near.items() for longer in found]:
        near[longer].add(place)
    for place in named:
        near[place] |= {
            other
            for other, _, _ in process.extract(
                place,
                named,
                scorer=fuzz.ratio,
                processor=None,
                score_cutoff=SPELLED_ALIKE,
                limit=None,
            )
        }
    return near


def full_name(name: str, suffix: str, known: Collection[str]) -> str:
    """The fuller name: Henry II of England, where that is known by its match key, or as the text
    has it."""
    short, full = _short_name(name, suffix), name + suffix
    return short if short and match_key(short) in known and match_key(full) not in known else full


def full_names_asked(key: str, suffix: str, known: Iterable[str]) -> list[str]:
    """Those of the known match keys that ``full_name`` may ask for, of a name with this match
    key."""
    short, full = _short_name(key, suffix), match_key(key + suffix)
    asked = {match_key(short), _without_gaps(full)} if short else set()
    return sorted({one for one in known if _without_gaps(one) in asked})


def bare_names(full: str) -> set[str]:
    """Match keys of names that the match key of a full one may be of: X of Y, and X, Duke of Y, are
    of X."""
    heads = [full[: found.start()] for found in _OF.finditer(full)]
    last = full.rfind(" of ")
    heads += [
        full[:place].rstrip() for place, sign in enumerate(full[: max(last, 0)]) if sign == ","
    ]
    return {head for head in heads if head}


def _short_name(name: str, suffix: str) -> str:
    """Of X and ", Duke of Y": X of Y."""
    whole, _, place = suffix.partition(" of ")
    return f"{name} of {place}" if place and whole.startswith(",") else ""


def _without_gaps(key: str) -> str:
    """A full stop before a comma is a space in a match key."""
    return key.replace(" ,", ",")


def what_is_said(text: str) -> Iterator[tuple[int, Bearer]]:
    """Where a name has ended, and what is said of it there. An epithet may have the years of a life
    behind it."""
    lives = (
        {found.start(): life for found in _LIFE.finditer(text) if (life := _life(found))}
        if "(" in text
        else {}
    )
    for found in _EPITHET.finditer(text):
        place = found["place"] or found["emperor"] or found["called"]
        life = lives.get(found.end(), Bearer(""))
        suffix = found[0] if found["called"] else f", {_DASH.sub('-', found[0].lstrip(' ,'))}"
        yield (
            found.start(),
            Bearer(suffix, match_key(place), found["ordinal"] or "", life.born, life.died),
        )
    yield from lives.items()


@lru_cache(100_000)
def numbered(name: str) -> tuple[str, Bearer] | None:
    """Of Charles I of England the match key of Charles I, and who that is."""
    found = _NUMBERED.fullmatch(name)
    place = found and (_OF_PLACE.fullmatch(found[2]) or _EPITHET.fullmatch(found[2]))
    if not found or not place or not place["place"]:
        return None
    return match_key(found[1]), Bearer(found[2], match_key(place["place"]))


def _life(found: "regex.Match[str]") -> Bearer | None:
    born, died = int(found["born"] or found["from"] or 0), int(found["died"] or found["to"] or 0)
    if born and died:
        return (
            Bearer(f" ({born}–{died})", born=born, died=died)
            if 0 <= died - born <= LONGEST_LIFE
            else None
        )
    return Bearer(f" (born {born})" if born else f" (died {died})", born=born, died=died)


def _name_before(text: str, end: int, names: Iterable[str], bearer: Bearer) -> str:
    """The longest of the names, in lower case, that ends there and is whole; empty where none
    is."""
    start = max(0, end - LONGEST_NAME)
    folded = text[start:end].casefold()
    if len(folded) != end - start:
        return ""
    for name in sorted((name for name in names if folded.endswith(name)), key=len, reverse=True):
        lone = _WHOLE_WORD if bearer.place else _WHOLE_WORD_WITH_YEARS
        if (_WHOLE if " " in name else lone).search(text[start : end - len(name)]):
            return name
    return ""
