"""How much a text looks like writing, by its characters outside ASCII: bytes read in a wrong encoding give rare
ideographs beside Latin letters, or accented letters beside each other, where writing has neither."""

_MOST = 2000
_TYPOGRAPHY = frozenset("“”‘’„‚–—…•«»‹›€£§·°©®™¿¡½¼¾")


def plausibility(text: str) -> float:
    """From 0 (noise) to 1 (writing); 1 for plain ASCII."""
    places = _outside_ascii(text)
    if not places:
        return 1.0
    return sum(
        _fit(text[place], text[max(0, place - 1) : place] + text[place + 1 : place + 2]) for place in places
    ) / len(places)


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
    if "\u3000" <= character <= "\u30ff" or "\uff01" <= character <= "\uff60" or "\uac00" <= character <= "\ud7a3":
        return 1.0
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
