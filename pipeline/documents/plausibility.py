"""How much a text looks like writing, by its characters outside ASCII: bytes read in a wrong encoding give rare
ideographs beside Latin letters, or accented letters beside each other, where writing has neither."""

from collections import Counter
from unicodedata import combining

_MOST = 2000
_TYPOGRAPHY = frozenset("“”‘’„‚–—…•«»‹›€£§·°©®™¿¡½¼¾")
_ALPHABETS = tuple(
    map(
        frozenset,
        "àâæçèéêëîïôùûüÿœ äöüßé áéíñóúü ãáâàçéêíóôõúü àèéìíòóùúî åäöæøéü áéíóúýþæöð çëâ éëïóöüá "
        "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű ăâîșțşţ čćđšž çğıİöşüâîû ąčęėįšųūž āčēģīķļņšūž äõöüšž "
        "àáâãèéêìíòóôõùúýăđĩũơư".split(),
    )
)
"""What languages that are written in Latin letters have beside those of ASCII."""


def plausibility(text: str) -> float:
    """From 0 (noise) to 1 (writing); 1 for plain ASCII."""
    places = _outside_ascii(text)
    if not places:
        return 1.0
    fit = sum(_fit(text[place], text[max(0, place - 1) : place] + text[place + 1 : place + 2]) for place in places)
    return fit / len(places) * _share_of_one_language([text[place] for place in places])


def _share_of_one_language(characters: list[str]) -> float:
    """Of the Latin letters among them, those that the likeliest language has."""
    letters = Counter(
        character.lower() for character in characters if character.isalpha() and character < "\u0250"
    ) - Counter("ªº")
    if not letters:
        return 1.0
    return max(sum(letters[letter] for letter in alphabet) for alphabet in _ALPHABETS) / letters.total()


def _outside_ascii(text: str) -> list[int]:
    places: list[int] = []
    for place, character in enumerate(text):
        if character > "\x7f":
            places.append(place)
            if len(places) == _MOST:
                break
    return places


def _fit(character: str, around: str) -> float:
    """How well the character goes with its neighbours."""
    if "\u3000" <= character <= "\u30ff" or "\uff01" <= character <= "\uff60":
        return 1.0
    if "\uac00" <= character <= "\ud7a3":
        return 1.0 if _encoded(character, "euc_kr") else 0.2
    if combining(character):
        return 1.0 if any(other.isalpha() for other in around) else 0.1
    beside_ascii_letter = any(other.isascii() and other.isalpha() for other in around)
    if "\u4e00" <= character <= "\u9fff":
        return (1.0 if _is_common_ideograph(character) else 0.2) * (0.4 if beside_ascii_letter else 1.0)
    if character in _TYPOGRAPHY:
        return 0.2 if any(other > "\x7f" and other not in _TYPOGRAPHY for other in around) else 0.8
    if not character.isalpha() or character in "ªº":
        return 0.1
    if character < "\u0250":
        return 1.0 if beside_ascii_letter else 0.1 if any(other > "\x7f" for other in around) else 0.6
    return 1.0 if any(ord(other) >> 8 == ord(character) >> 8 for other in around) else 0.1


def _is_common_ideograph(character: str) -> bool:
    """Whether it is in GB 2312, or in level 1 of JIS X 0208 (first bytes 0x88 to 0x97 in Shift_JIS)."""
    if _encoded(character, "gb2312"):
        return True
    return 0x88 <= next(iter(_encoded(character, "shift_jis")), 0) <= 0x97


def _encoded(character: str, encoding: str) -> bytes:
    try:
        return character.encode(encoding)
    except UnicodeEncodeError:
        return b""
