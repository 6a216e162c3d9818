"""People of one name, told apart by what the text says right behind it: an epithet, or the years of a life.

Charles I, Duke of Bourbon, and Charles I, King of Spain, are two; so are John Adams (1735–1826) and John Adams (born
1947). Nothing is made of a name alone: where no text says more, it is one entity.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import pandas as pd
import regex
from rapidfuzz import fuzz

from pipeline.resolution.spelling import RANKS
from pipeline.text.ids import match_key

_BEFORE_GIVEN_NAMES = """
    king queen emperor empress prince princess count countess duke duchess margrave landgrave elector pope sultan
    archduke archduchess
""".split()
_RANK = f"(?i:{'|'.join(RANKS)})"
_WORD = r"\p{Lu}[\p{L}\p{M}'’]*+"
_PLACE = rf"{_WORD}(?:[ ]?-[ ]?{_WORD}|[ ]{_WORD}){{0,3}}+"
_EPITHET = regex.compile(
    rf"[ ]?,[ ](?:(?P<ordinal>\d+)(?:st|nd|rd|th)[ ])?(?:{_WORD}[ ]){{0,2}}?{_RANK}[ ](?:Palatine[ ])?of[ ](?:the[ ])?"
    rf"(?P<place>{_PLACE})|[ ]?,[ ](?P<emperor>Holy[ ]Roman[ ]Emperor)"
    rf"|[ ](?P<called>the[ ](?!{_RANK}\b)\p{{Lu}}\p{{Ll}}+)(?![\p{{L}}-]|[ ]\p{{Lu}})"
)
_DATE = r"(?:c\.|ca\.|circa)?[ ]?(?:\d{1,2}[ ]\p{L}+,?[ ]|\p{Lu}\p{L}+[ ](?:\d{1,2},[ ])?)?"
_LIFE = regex.compile(
    rf"[ ]?\([ ]?(?:(?:born|b\.)[ ]{_DATE}(?P<born>\d{{3,4}})|(?:died|d\.)[ ]{_DATE}(?P<died>\d{{3,4}})"
    rf"|{_DATE}(?P<from>\d{{3,4}})[ ]?[-–—][ ]?{_DATE}(?P<to>\d{{3,4}}))(?=[ ,;)])"
)
_BOUNDARY = (
    rf"^|[\n.;:!?\"“«]\s*|\([ ]?|\b(?i:{'|'.join(_BEFORE_GIVEN_NAMES)})[ ]|\b(?:Sir|Saint|St\.|Dr\.)[ ]"
    rf"|(?<!\p{{L}})(?!{_RANK}\b)\p{{Ll}}{{3,}}[ ]of[ ]"
)
_IN_SENTENCE = r"(?<![\p{L}\p{N}'’-])(?!(?:of|de|d|der|den|di|du|van|von|zu|y|bin|ibn)[ ])(?:\p{Ll}+|\d+)[ ]"
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
_DASH = regex.compile(r"[ ]?-[ ]?")
_NO_PEOPLE = frozenset("EVENT LOCATION PLACE GEO CITY COUNTRY ORGANIZATION ORGANISATION COMPANY WORK CONCEPT".split())
"""Types of what may have years, and places, but is nobody."""
LONGEST_LIFE, LONGEST_NAME = 115, 200
SPELLED_ALIKE = 85
SAME_YEAR = 2
"""Years by which two texts may differ about one birth or death."""


@dataclass(frozen=True, order=True)
class Bearer:
    """What a text says of the one whom it calls by a name. ``suffix``: as it is written behind the name; ``place`` and
    ``ordinal``: of an epithet, the place as a match key; ``born`` and ``died``: years, 0 where none is said."""

    suffix: str
    place: str = ""
    ordinal: str = ""
    born: int = 0
    died: int = 0

    def clashes(self, other: "Bearer") -> bool:
        """Whether the two cannot be one person. One year that agrees is enough against another: that may be of a
        reign."""
        if self.place and other.place and not self._near(other):
            return True
        if self.ordinal and other.ordinal and self.ordinal != other.ordinal:
            return True
        years = [(a, b) for a, b in ((self.born, other.born), (self.died, other.died)) if a and b]
        lives = ((self.born, other.died), (other.born, self.died))
        apart = all(abs(a - b) > SAME_YEAR for a, b in years) if years else False
        return apart or any(a and b and not -SAME_YEAR <= b - a <= LONGEST_LIFE for a, b in lives)

    def matches(self, other: "Bearer") -> bool:
        """Whether something says that the two are one person."""
        alike = (self.place and other.place) or (self.born and other.born) or (self.died and other.died)
        return bool(alike) and not self.clashes(other)

    def _near(self, other: "Bearer") -> bool:
        """Hesse and Hesse-Kassel may be one, and are Wittenberg and Wittemberg; Bourbon and Spain are two."""
        one, two = self.place.split(), other.place.split()
        alike = fuzz.ratio(self.place, other.place) >= SPELLED_ALIKE
        return alike or one == two[: len(one)] or two == one[: len(two)]

    def behind(self, name: str, known: Collection[str]) -> str:
        """The fuller name: Henry II of England, where that is known by its match key, or as the text has it."""
        whole, _, place = self.suffix.partition(" of ")
        short = f"{name} of {place}" if place and whole.startswith(",") else ""
        full = name + self.suffix
        return short if short and match_key(short) in known and match_key(full) not in known else full


Said = dict[str, dict[str, list[Bearer]]]
"""Match key of a name -> text unit -> what it says of its bearers."""


def told_apart(extractions: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    """The records (EXTRACTIONS), with a fuller name in those text units (TEXT_UNITS) that say which bearer of a name
    they mean, where others say that they mean somebody else. A text unit that says nothing means whom the others of its
    document mean, if these agree; what is open still keeps the bare name, as does a text unit that means several. A
    relationship between a bare name and the fuller one, which are one now, is gone."""
    names = _names_of_units(extractions)
    documents = dict(zip(text_units["id"], text_units["document_id"], strict=True))
    said = _said(names, text_units)
    disputed = {key: people for key, of_units in said.items() if (people := _people(of_units))}
    if not disputed:
        return extractions
    known = {key for of_unit in names.values() for key in of_unit.values()}
    meant = {key: {unit: _meant(people, said[key][unit]) for unit in said[key]} for key, people in disputed.items()}
    of_documents = {key: _by_document(of_units, documents) for key, of_units in meant.items()}
    fuller: dict[tuple[str, str], str] = {}
    for unit, of_unit in names.items():
        for name, key in of_unit.items():
            if key in disputed:
                here = meant[key].get(unit) or of_documents[key].get(documents.get(unit, ""), frozenset())
                if len(here) == 1:
                    fuller[unit, name] = next(iter(here)).behind(name, known)
    return _renamed(extractions, fuller)


def _names_of_units(extractions: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Text unit -> name in its records, but for what is known to be nobody -> match key."""
    nobody = extractions["type"].str.upper().isin(_NO_PEOPLE)
    excluded = set(zip(extractions["text_unit_id"][nobody].tolist(), extractions["name"][nobody].tolist(), strict=True))
    units = extractions["text_unit_id"].tolist()
    pairs = set().union(*(zip(units, extractions[end].tolist(), strict=True) for end in ("name", "source", "target")))
    keys = {name: match_key(name) for _, name in pairs}
    names: dict[str, dict[str, str]] = defaultdict(dict)
    for unit, name in pairs - excluded:
        if keys[name]:
            names[unit][name] = keys[name]
    return names


def _said(names: Mapping[str, Mapping[str, str]], text_units: pd.DataFrame) -> Said:
    """What stands behind a name; in a text where nothing does, its fuller form: one that has Charles I of England means
    him by Charles I."""
    said: Said = defaultdict(dict)
    for unit, text in zip(text_units["id"].tolist(), text_units["text"].fillna("").tolist(), strict=True):
        folded = {name.casefold(): key for name, key in names.get(unit, {}).items() if not _TITLE.match(name)}
        for place, bearer in _bearers(text) if folded else ():
            if name := _name_before(text, place, folded, bearer):
                said[folded[name]].setdefault(unit, []).append(bearer)
    fuller = {name: found for name in set().union(*names.values()) if (found := _numbered(name))}
    forms: Said = defaultdict(dict)
    for unit, of_unit in names.items():
        for name in fuller.keys() & of_unit.keys():
            bare, bearer = fuller[name]
            forms[bare].setdefault(unit, []).append(bearer)
    return {bare: forms.get(bare, {}) | said.get(bare, {}) for bare in {**said, **forms}}


def _bearers(text: str) -> Iterator[tuple[int, Bearer]]:
    """Where a name has ended, and what is said of it there. An epithet may have the years of a life behind it."""
    lives = {found.start(): life for found in _LIFE.finditer(text) if (life := _life(found))}
    for found in _EPITHET.finditer(text):
        place = found["place"] or found["emperor"] or found["called"]
        life = lives.get(found.end(), Bearer(""))
        suffix = found[0] if found["called"] else f", {_DASH.sub('-', found[0].lstrip(' ,'))}"
        yield found.start(), Bearer(suffix, match_key(place), found["ordinal"] or "", life.born, life.died)
    yield from lives.items()


def _numbered(name: str) -> tuple[str, Bearer] | None:
    """Of Charles I of England the match key of Charles I, and who that is."""
    found = _NUMBERED.fullmatch(name)
    place = found and (_OF_PLACE.fullmatch(found[2]) or _EPITHET.fullmatch(found[2]))
    if not found or not place or not place["place"]:
        return None
    return match_key(found[1]), Bearer(found[2], match_key(place["place"]))


def _life(found: "regex.Match[str]") -> Bearer | None:
    born, died = int(found["born"] or found["from"] or 0), int(found["died"] or found["to"] or 0)
    if born and died:
        return Bearer(f" ({born}–{died})", born=born, died=died) if 0 <= died - born <= LONGEST_LIFE else None
    return Bearer(f" (born {born})" if born else f" (died {died})", born=born, died=died)


def _name_before(text: str, end: int, names: Iterable[str], bearer: Bearer) -> str:
    """The longest of the names, in lower case, that ends there and is whole; empty where none is."""
    start = max(0, end - LONGEST_NAME)
    folded = text[start:end].casefold()
    if len(folded) != end - start:
        return ""
    for name in sorted((name for name in names if folded.endswith(name)), key=len, reverse=True):
        lone = _WHOLE_WORD if bearer.place else _WHOLE_WORD_WITH_YEARS
        if (_WHOLE if " " in name else lone).search(text[start : end - len(name)]):
            return name
    return ""


def _people(of_units: Mapping[str, list[Bearer]]) -> dict[Bearer, Bearer]:
    """Each bearer -> one for all that are the same person; empty where all may be one."""
    counts = Counter(bearer for bearers in of_units.values() for bearer in bearers)
    bearers = sorted(counts)
    if not any(one.clashes(two) for one, two in combinations(bearers, 2)):
        return {}
    groups: list[list[Bearer]] = []
    for bearer in sorted(bearers, key=lambda one: (not one.place, -counts[one], one)):  # the surest first
        fits = [group for group in groups if any(map(bearer.matches, group)) and not any(map(bearer.clashes, group))]
        if fits:
            fits[0].append(bearer)
        else:
            groups.append([bearer])
    return {bearer: group[0] for group in groups for bearer in group}


def _meant(people: Mapping[Bearer, Bearer], bearers: Iterable[Bearer]) -> frozenset[Bearer]:
    return frozenset(people[bearer] for bearer in bearers)


def _by_document(
    of_units: Mapping[str, frozenset[Bearer]], documents: Mapping[str, str]
) -> dict[str, frozenset[Bearer]]:
    """Whom its text units mean, all together."""
    of_documents: dict[str, set[Bearer]] = defaultdict(set)
    for unit, people in of_units.items():
        of_documents[documents.get(unit, "")] |= people
    return {document: frozenset(people) for document, people in of_documents.items()}


def _renamed(extractions: pd.DataFrame, fuller: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    units = {unit for unit, _ in fuller}
    there = extractions[extractions["text_unit_id"].isin(units)]
    changed = {
        end: [
            fuller.get(pair, pair[1]) for pair in zip(there["text_unit_id"].tolist(), there[end].tolist(), strict=True)
        ]
        for end in ("name", "source", "target")
    }
    renamed = there.assign(**changed)
    alias = _loops(renamed) & ~_loops(there)
    return pd.concat([extractions.drop(there.index), renamed[~alias]]).sort_index()


def _loops(records: pd.DataFrame) -> "pd.Series[bool]":
    """Relationships of a name with itself."""
    ends = (records[end].map(match_key) for end in ("source", "target"))
    source, target = ends
    return (source == target) & (records["kind"] == "relationship")
