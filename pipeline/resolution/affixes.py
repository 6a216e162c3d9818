"""Closed lists of what names carry beside the name itself: legal forms, titles, articles, plurals."""

LEGAL_FORMS = {
    "inc": "inc", "incorporated": "inc", "corp": "corp", "corporation": "corp", "co": "co", "company": "co",
    "ltd": "ltd", "limited": "ltd", "llc": "llc", "llp": "llp", "lp": "lp", "plc": "plc", "gmbh": "gmbh", "ag": "ag",
    "kg": "kg", "ug": "ug", "ev": "ev", "sa": "sa", "sas": "sas", "sarl": "sarl", "srl": "srl", "spa": "spa",
    "nv": "nv", "bv": "bv", "ab": "ab", "asa": "asa", "oy": "oy", "oyj": "oyj", "aps": "aps", "kk": "kk",
    "pty": "pty", "pte": "pte", "ooo": "ooo", "ооо": "ооо", "зао": "зао", "оао": "оао", "пао": "пао",
}  # fmt: skip
"""What stands behind a company's name -> which form it is."""
LEGAL_FORMS_IN_FRONT = frozenset({"ооо", "зао", "оао", "пао"})
JOINED_LEGAL_FORMS = ("股份有限公司", "有限责任公司", "有限公司", "株式会社", "有限会社")

TITLES = {
    "mr": "m", "mister": "m", "sir": "m", "herr": "m", "monsieur": "m", "señor": "m", "senor": "m", "sr": "m",
    "mrs": "f", "ms": "f", "miss": "f", "dame": "f", "frau": "f", "madame": "f", "mme": "f", "mlle": "f",
    "señora": "f", "senora": "f", "sra": "f", "dr": "", "doctor": "", "prof": "", "professor": "", "rev": "",
    "reverend": "", "mx": "", "hon": "",
}  # fmt: skip
"""What stands before a person's name -> m or f, where it says so."""
DEGREES = frozenset({"phd", "esq", "msc", "mba", "dphil", "frs"})
"""What stands behind a person's name and is no part of it. Junior and senior are."""
JOINED_TITLES = ("さん", "先生", "女士", "氏", "様")

ARTICLES = frozenset({"the", "a", "an"})

PLURAL_ONLY = frozenset(
    """
    arms customs glasses goods means works securities damages grounds minutes savings spirits manners premises quarters
    remains scales spectacles stocks airs brains clothes colours colors forces heavens letters looks odds pains papers
    proceeds regards terms thanks times woods news series species headquarters politics windows contents effects
    communications humanities
    """.split()
)
"""Plurals that mean something else than their singular."""
PROPER_TYPES = frozenset(
    """
    PERSON PEOPLE ORGANIZATION ORGANISATION COMPANY LOCATION PLACE GEO CITY COUNTRY EVENT BRAND TEAM BAND WORK BOOK FILM
    SONG NAME TITLE UNKNOWN
    """.split()
)
"""Types of what has a name of its own, which has no plural."""


def singular(word: str) -> str:
    """The English singular of a regular plural; the word itself where it is none."""
    if len(word) < 5 or word in PLURAL_ONLY or word.endswith(("ss", "us", "is", "ics", "as", "os")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 6 else word
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word.removesuffix("s")


def is_person(type: str) -> bool:
    return "PERSON" in type.upper()
