"""Tell people of one name apart by an epithet or the years of a life behind the name in the text.

Charles I, Duke of Bourbon, and Charles I, King of Spain, are two people; so are John Adams
(1735–1826) and John Adams (born 1947). A name alone is no reason to tell people apart: if no text
says more, it is one entity.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pandas as pd
import regex
from rapidfuzz import fuzz, process

from pipeline.resolution.spelling import RANKS
from pipeline.text.ids import match_key

_BEFORE_GIVEN_NAMES = """
    king queen emperor empress prince princess count countess duke duchess margrave landgrave
    elector pope sultan archduke archduchess
""".split()
_RANK = f"(?i:{'|'.join(RANKS)})"
_WORD = r"\p{Lu}[\p{L}\p{M}'’]*+"
_PLACE = rf"{_WORD}(?:[ ]?-[ ]?{_WORD}|[ ]{_WORD}){{0,3}}+"
# An epithet: ", 3rd Duke of Bourbon", ", Holy Roman Emperor", or " the Bold".
_EPITHET = regex.compile(
    r"[ ]?,[ ](?:(?P<ordinal>\d+)(?:st|nd|rd|th)[ ])?"
    rf"(?:{_WORD}[ ]){{0,2}}?{_RANK}[ ](?:Palatine[ ])?of[ ](?:the[ ])?"
    rf"(?P<place>{_PLACE})|[ ]?,[ ](?P<emperor>Holy[ ]Roman[ ]Emperor)"
    rf"|[ ](?P<called>the[ ](?!{_RANK}\b)\p{{Lu}}\p{{Ll}}+)(?![\p{{L}}-]|[ ]\p{{Lu}})"
)
_DATE = r"(?:c\.|ca\.|circa)?[ ]?(?:\d{1,2}[ ]\p{L}+,?[ ]|\p{Lu}\p{L}+[ ](?:\d{1,2},[ ])?)?"
# A life: " (born 1947", " (d. 4 May 1826" or " (1735–1826".
_LIFE = regex.compile(
    rf"[ ]?\([ ]?(?:(?:born|b\.)[ ]{_DATE}(?P<born>\d{{3,4}})"
    rf"|(?:died|d\.)[ ]{_DATE}(?P<died>\d{{3,4}})"
    rf"|{_DATE}(?P<from>\d{{3,4}})[ ]?[-–—][ ]?{_DATE}(?P<to>\d{{3,4}}))(?=[ ,;)])"
)
_BOUNDARY = (
    rf"^|[\n.;:!?\"“«]\s*|\([ ]?|\b(?i:{'|'.join(_BEFORE_GIVEN_NAMES)})[ ]"
    r"|\b(?:Sir|Saint|St\.|Dr\.)[ ]"
    rf"|(?<!\p{{L}})(?!{_RANK}\b)\p{{Ll}}{{3,}}[ ]of[ ]"
)
_IN_SENTENCE = (
    r"(?<![\p{L}\p{N}'’-])(?!(?:of|de|d|der|den|di|du|van|von|zu|y|bin|ibn)[ ])(?:\p{Ll}+|\d+)[ ]"
)
_WHOLE = regex.compile(rf"(?:{_BOUNDARY}|{_IN_SENTENCE})$")
"""The text before a name of several words that is not the end of a longer name."""
_WHOLE_WORD = regex.compile(rf"(?:{_BOUNDARY}|(?!(?:and|or)[ ]){_IN_SENTENCE})$")
"""The text before a name of one word with an epithet. "Thurn and Taxis" is one name."""
_WHOLE_WORD_WITH_YEARS = regex.compile(rf"(?:{_BOUNDARY})$")
"""The text before a name of one word with years alone, which "western Iran (935–976)" is not."""
_TITLE = regex.compile(rf"(?:\S+[ ])?{_RANK}[ ](?:of|Palatine)\b")
"""The beginning of a title that many people bear one after the other."""
_NUMBERED = regex.compile(rf"((?:{_WORD}[ ]){{1,3}}[IVX]+)(.+)")
_OF_PLACE = regex.compile(rf"[ ]of[ ](?:the[ ])?(?P<place>{_PLACE})")
_OF = regex.compile(r" of(?= .)")
_DASH = regex.compile(r"[ ]?-[ ]?")
_NO_PEOPLE = frozenset(
    "EVENT LOCATION PLACE GEO CITY COUNTRY ORGANIZATION ORGANISATION COMPANY WORK CONCEPT".split()
)
LONGEST_LIFE, LONGEST_NAME = 115, 200
"""The most years of a life, and the most letters of a name."""
SPELLED_ALIKE = 85
"""The lowest similarity (0 to 100) at which two spellings may mean one place."""
SAME_YEAR = 2
"""The most years by which two texts may differ about one birth or death."""
Fact = tuple[str, str | int]
"""A kind of fact ("place", "born" or "died") and its value: a match key or a year."""


@dataclass(frozen=True, order=True)
class Bearer:
    """The facts that a text states about the person whom it calls by a name.

    ``suffix`` is the epithet or the years as written behind the name. ``place`` (a match key) and
    ``ordinal`` belong to an epithet and may be empty. ``born`` and ``died`` are years, 0 if the
    text states none.
    """

    suffix: str
    place: str = ""
    ordinal: str = ""
    born: int = 0
    died: int = 0

    def clashes(self, other: "Bearer") -> bool:
        """Return whether the two cannot be one person.

        They cannot if their places, ordinals or years contradict each other. One year that agrees
        outweighs another that does not: that may be the year of a reign.
        """
        if self.place and other.place and not self._is_near(other):
            return True
        if self.ordinal and other.ordinal and self.ordinal != other.ordinal:
            return True
        return self._years_disagree(other) or self._is_no_life(other)

    def shares_kind(self, other: "Bearer") -> bool:
        """Return whether both state a place, a birth or a death."""
        if self.place and other.place:
            return True
        return bool((self.born and other.born) or (self.died and other.died))

    def _years_disagree(self, other: "Bearer") -> bool:
        """Return whether both state years of the same event, and no such years agree."""
        years = ((self.born, other.born), (self.died, other.died))
        both_stated = [(one, two) for one, two in years if one and two]
        if not both_stated:
            return False
        return all(abs(one - two) > SAME_YEAR for one, two in both_stated)

    def _is_no_life(self, other: "Bearer") -> bool:
        """Return whether the birth of one and the death of the other cannot be of one life."""
        for born, died in ((self.born, other.died), (other.born, self.died)):
            if born and died and not -SAME_YEAR <= died - born <= LONGEST_LIFE:
                return True
        return False

    @property
    def facts(self) -> "tuple[Bearer, ...]":
        """The facts as bearers of one fact each, without the suffix.

        Two bearers clash if a fact of one clashes with the other.
        """
        stated = (
            Bearer("", self.place),
            Bearer("", ordinal=self.ordinal),
            Bearer("", born=self.born, died=self.died),
        )
        return tuple(fact for fact in stated if fact != NOTHING_SAID)

    def _is_near(self, other: "Bearer") -> bool:
        """Return whether the two places may be one.

        Hesse and Hesse-Kassel may be one, and so may Wittenberg and Wittemberg; Bourbon and Spain
        are two.
        """
        one, two = self.place.split(), other.place.split()
        if fuzz.ratio(self.place, other.place) >= SPELLED_ALIKE:
            return True
        return one == two[: len(one)] or two == one[: len(two)]


NOTHING_SAID = Bearer("")


def is_nobody(types: pd.Series) -> "pd.Series[bool]":
    """Return for each entity type whether its entities have years or places but are no people."""
    return types.str.upper().isin(_NO_PEOPLE)


def bearers_of(
    names: Mapping[str, str], text: str, found: Iterable[tuple[int, Bearer]]
) -> Iterator[tuple[str, Bearer]]:
    """Yield the match keys of names in a text, each with what the text states about the bearer.

    ``names`` maps the names that the text uses to their match keys. ``found`` holds the positions
    and results of `what_is_said` for the text. If a text states nothing behind a name, a fuller
    form of the name in it counts: a text with Charles I of England means him by Charles I.
    """
    folded: dict[str, str] = {}
    if found:
        folded = {name.casefold(): key for name, key in names.items() if not _TITLE.match(name)}
    described: set[str] = set()
    for place, bearer in found:
        name = _name_before(text, place, folded, bearer)
        if name:
            described.add(folded[name])
            yield folded[name], bearer
    for name in names:
        form = numbered(name)
        if form and form[0] not in described:
            yield form


def people(counts: Mapping[Bearer, int]) -> dict[Bearer, Bearer]:
    """Map each bearer of a name to one bearer that stands for the same person.

    ``counts`` says how often each bearer is named. The result is empty if all may be one person.
    Each bearer joins the first person who shares a kind of fact with it and does not clash. The
    surest bearers go first: those with a place, then the most frequent.
    """
    surest_first = sorted(counts, key=lambda bearer: (not bearer.place, -counts[bearer], bearer))
    if _may_be_one(surest_first):
        return {}
    found: list[Person] = []
    # Numbers of the people in `found` by their facts, ascending: comparing every bearer with every
    # person would be slow for a name of thousands.
    numbers_by_fact: dict[Fact, list[int]] = defaultdict(list)
    near_places = _near_places({bearer.place for bearer in counts if bearer.place})
    for bearer in surest_first:
        candidates: set[int] = set()
        for fact in _agreeing_facts(bearer, near_places):
            candidates.update(numbers_by_fact[fact])
        number = _first_that_fits(bearer, sorted(candidates), found)
        if number is None:
            number = len(found)
            found.append(Person())
        found[number].add(bearer)
        for fact in _stated_facts(bearer):
            numbers = numbers_by_fact[fact]
            if not numbers or numbers[-1] != number:
                numbers.append(number)
    return {bearer: person.bearers[0] for person in found for bearer in person.bearers}


def _first_that_fits(
    bearer: Bearer, candidates: Iterable[int], found: "Sequence[Person]"
) -> int | None:
    """Return the first of the candidates, numbers of people, that the bearer may be, or None."""
    for number in candidates:
        if found[number].fits(bearer):
            return number
    return None


@dataclass
class Person:
    """Bearers who are one person. ``facts`` are the facts stated of any of them, each once."""

    bearers: list[Bearer] = field(default_factory=list)
    facts: dict[Bearer, None] = field(default_factory=dict)

    def add(self, bearer: Bearer) -> None:
        """Add a bearer and its facts."""
        self.bearers.append(bearer)
        self.facts |= dict.fromkeys(bearer.facts)

    def clashes(self, bearer: Bearer) -> bool:
        """Return whether the bearer contradicts a fact of this person."""
        return any(map(bearer.clashes, self.facts))

    def fits(self, bearer: Bearer) -> bool:
        """Return whether the bearer shares a kind of fact with this person, and no fact clashes."""
        has_common_kind = any(bearer.shares_kind(fact) for fact in self.facts)
        return has_common_kind and not self.clashes(bearer)


def _may_be_one(bearers: Iterable[Bearer]) -> bool:
    """Return whether no two of the bearers clash."""
    everybody = Person()
    for bearer in bearers:
        if everybody.clashes(bearer):
            return False
        everybody.add(bearer)
    return True


def _stated_facts(bearer: Bearer) -> Iterator[Fact]:
    """Yield the facts by which a person may be found; an ordinal alone is too little."""
    if bearer.place:
        yield "place", bearer.place
    if bearer.born:
        yield "born", bearer.born
    if bearer.died:
        yield "died", bearer.died


def _agreeing_facts(bearer: Bearer, near_places: Mapping[str, Collection[str]]) -> Iterator[Fact]:
    """Yield the facts that agree with a fact of the bearer; the same person has one of them."""
    for kind, value in _stated_facts(bearer):
        if isinstance(value, str):
            for place in near_places[value]:
                yield kind, place
        else:
            for year in range(value - SAME_YEAR, value + SAME_YEAR + 1):
                yield kind, year


def _near_places(places: Collection[str]) -> dict[str, set[str]]:
    """Map each place to the places that may be the same, with itself among them.

    Two places may be the same if one begins with the words of the other, or if they are spelled
    alike.
    """
    names = sorted(places)
    by_beginning: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for place in names:
        words = place.split()
        for end in range(len(words) + 1):
            by_beginning[tuple(words[:end])].append(place)
    near: dict[str, set[str]] = {place: set() for place in names}
    for place in names:
        for longer in by_beginning[tuple(place.split())]:
            near[place].add(longer)
            near[longer].add(place)
    for place in names:
        spelled_alike = process.extract(
            place,
            names,
            scorer=fuzz.ratio,
            processor=None,
            score_cutoff=SPELLED_ALIKE,
            limit=None,
        )
        near[place].update(other for other, _, _ in spelled_alike)
    return near


def full_name(name: str, suffix: str, known: Collection[str]) -> str:
    """Return the fuller name of a person whom a text calls by ``name``.

    Henry II with the suffix ", King of England" is called Henry II of England if the match key of
    this form is in ``known`` and that of the name with its suffix is not. Otherwise the name with
    its suffix is returned.
    """
    short = _short_name(name, suffix)
    full = name + suffix
    only_short_is_known = match_key(short) in known and match_key(full) not in known
    return short if short and only_short_is_known else full


def full_names_asked(key: str, suffix: str, known: Iterable[str]) -> list[str]:
    """Return the known match keys that `full_name` may look for, sorted.

    ``key`` is the match key of the name. A full stop of the name may be missing in it, so keys
    that differ from a wanted one only in such a gap are returned too.
    """
    short = _short_name(key, suffix)
    if not short:
        return []
    full = match_key(key + suffix)
    wanted = {match_key(short), _without_gaps(full)}
    return sorted({one for one in known if _without_gaps(one) in wanted})


def bare_names(full: str) -> set[str]:
    """Return the match keys of names that the match key ``full`` may be a fuller form of.

    "X of Y" and "X, Duke of Y" are fuller forms of "X".
    """
    heads = {full[: found.start()] for found in _OF.finditer(full)}
    last_of = full.rfind(" of ")
    for place, sign in enumerate(full[: max(last_of, 0)]):
        if sign == ",":
            heads.add(full[:place].rstrip())
    return heads - {""}


def _short_name(name: str, suffix: str) -> str:
    """Return "X of Y" for the name "X" and the suffix ", Duke of Y"; empty for other suffixes."""
    rank, _, place = suffix.partition(" of ")
    return f"{name} of {place}" if place and rank.startswith(",") else ""


def _without_gaps(key: str) -> str:
    """Return the match key without spaces before commas: a full stop there becomes a space."""
    return key.replace(" ,", ",")


def what_is_said(text: str) -> Iterator[tuple[int, Bearer]]:
    """Yield each position where a name may end, with what the text states behind it.

    A life in brackets behind an epithet is joined with it; it is also yielded by itself, after
    all epithets.
    """
    lives: dict[int, Bearer] = {}
    # Most texts have no bracket: the test is faster than the search.
    if "(" in text:
        for found in _LIFE.finditer(text):
            life = _read_life(found)
            if life:
                lives[found.start()] = life
    for found in _EPITHET.finditer(text):
        place = found["place"] or found["emperor"] or found["called"]
        life = lives.get(found.end(), NOTHING_SAID)
        if found["called"]:
            suffix = found[0]
        else:
            epithet = _DASH.sub("-", found[0].lstrip(" ,"))
            suffix = f", {epithet}"
        ordinal = found["ordinal"] or ""
        yield found.start(), Bearer(suffix, match_key(place), ordinal, life.born, life.died)
    yield from lives.items()


@lru_cache(100_000)
def numbered(name: str) -> tuple[str, Bearer] | None:
    """Split a name such as "Charles I of England" into a shorter name and a bearer.

    The result is the match key of "Charles I" and the bearer with the suffix " of England". It is
    None if the name has no Roman numeral with a place or an epithet with a place behind it.
    """
    found = _NUMBERED.fullmatch(name)
    if not found:
        return None
    place = _OF_PLACE.fullmatch(found[2]) or _EPITHET.fullmatch(found[2])
    if not place or not place["place"]:
        return None
    return match_key(found[1]), Bearer(found[2], match_key(place["place"]))


def _read_life(found: "regex.Match[str]") -> Bearer | None:
    """Return the years of a match of `_LIFE`, or None if they cannot be those of one life."""
    born = int(found["born"] or found["from"] or 0)
    died = int(found["died"] or found["to"] or 0)
    if born and died:
        is_a_life = 0 <= died - born <= LONGEST_LIFE
        return Bearer(f" ({born}–{died})", born=born, died=died) if is_a_life else None
    return Bearer(f" (born {born})" if born else f" (died {died})", born=born, died=died)


def _name_before(text: str, end: int, names: Iterable[str], bearer: Bearer) -> str:
    """Return the longest of the names that ends at ``end`` and is no end of a longer name.

    ``names`` are in lower case, and so is the result; it is empty if no name fits.
    """
    start = max(0, end - LONGEST_NAME)
    folded = text[start:end].casefold()
    if len(folded) != end - start:
        # Lower case has another length here ("ß" becomes "ss"), so positions do not correspond.
        return ""
    whole_word = _WHOLE_WORD if bearer.place else _WHOLE_WORD_WITH_YEARS
    ending = [name for name in names if folded.endswith(name)]
    for name in sorted(ending, key=len, reverse=True):
        boundary = _WHOLE if " " in name else whole_word
        if boundary.search(text[start : end - len(name)]):
            return name
    return ""
