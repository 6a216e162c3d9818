import codecs
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents.encoding import UndecodableError, decode, decoded
from tests.documents.legacy import COMMONEST, LENGTHS, RARER, RUSSIAN, sample

FALLBACKS = ("gb18030", "shift_jis", "cp1252")

CHINESE = "磨坊主的女儿整夜没有睡，她听见水轮在转动。"
JAPANESE = "灯台守の娘は、夜になると静かに海を見ていた。"
FRENCH = "Le garçon naïf dîne à Noël, près de l'élégante façade."
GERMAN = "Die Mühle am Fluß gehört seit Jahren der Größe nach zu den größten."


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, FRENCH, "plain ASCII", "x\x00y", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_is_recognised(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "", FALLBACKS) == text


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("text", [FRENCH, "id,text\n1,磨坊\n", "a"])
def test_utf_16_without_a_mark_is_recognised_by_its_latin_part(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "", FALLBACKS) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gb18030", "磨坊"),
        ("gb18030", CHINESE),
        ("gb18030", "The mill is called 白壶. " * 20),
        ("shift_jis", "東京"),
        ("shift_jis", "おはようございます。"),
        ("shift_jis", "The lighthouse 灯台 of Tokyo. " * 20),
        ("shift_jis", JAPANESE),
        ("shift_jis", JAPANESE * 3000),
        ("cp1252", "café"),
        ("cp1252", FRENCH),
        ("cp1252", GERMAN),
        ("cp1252", "“Quoted” – €5…"),
    ],
)
def test_legacy_encodings_are_recognised(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding), "", FALLBACKS) == text


def test_an_encoding_named_is_the_only_one_tried() -> None:
    assert decode("東京".encode("shift_jis"), "shift_jis", FALLBACKS) == "東京"
    with pytest.raises(UndecodableError, match="is not utf-8"):
        decode(FRENCH.encode("cp1252"), "utf-8", FALLBACKS)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 8,
        b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 20,
        b"\x81\x8d\x8f\x90\x9d\xff\xff",
        codecs.BOM_UTF8 + b"\xff\xfe",
    ],
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        decode(data, "", FALLBACKS)


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    with suppress(UndecodableError):
        assert isinstance(decode(data, "", FALLBACKS), str)


@given(st.text(max_size=200))
def test_utf_8_is_never_taken_for_another(text: str) -> None:
    kept = "".join(
        character for character in text if character.isprintable() and character != "\ufeff"
    )
    assert decode(kept.encode(), "", FALLBACKS) == kept


def outcome(encoding: str, text: str, length: int, start: int) -> str:
    """Return "right", "told" (a guess that is reported), "refused" or "wrong"."""
    wanted, data = sample(encoding, text, length, start)
    try:
        found = decoded(data, "", FALLBACKS)
    except UndecodableError:
        return "refused"
    if not found.sure:
        return "told"
    return "right" if found.text == wanted else "wrong"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("encoding", "text"), [*COMMONEST.items(), *RARER])
def test_no_wrong_encoding_is_sure(encoding: str, text: str, length: int) -> None:
    starts = range(0, 400, 29) if length < max(LENGTHS) else (0, 111, 222)
    found = [outcome(encoding, text, length, start) for start in starts]
    assert "wrong" not in found


def test_the_most_frequent_encodings_are_recognised() -> None:
    for start in (0, 111, 222):
        long = {
            encoding: sample(encoding, text, 2000, start) for encoding, text in COMMONEST.items()
        }
        right = [
            encoding
            for encoding, (text, data) in long.items()
            if decode(data, "", FALLBACKS) == text
        ]
        assert len(right) >= 19, set(COMMONEST) - set(right)
        sure = [
            encoding for encoding, (_, data) in long.items() if decoded(data, "", FALLBACKS).sure
        ]
        assert len(sure) >= 17, set(COMMONEST) - set(sure)


def test_the_most_frequent_encodings_are_recognised_in_200_characters() -> None:
    for encoding, text in COMMONEST.items():
        wanted, data = sample(encoding, text, 200)
        assert decode(data, "", FALLBACKS) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_refused(seed: int) -> None:
    noise = bytes(random.Random(seed).choices(range(0x80, 0x100), k=300))
    with pytest.raises(UndecodableError):
        decode(noise, "", FALLBACKS)


def test_the_last_line_alone_may_tell_the_encoding() -> None:
    text = "A line of plain English.\n" * 20_000 + RUSSIAN
    found = decoded(text.encode("koi8_r"), "", FALLBACKS)
    assert (found.text == text, found.encoding, found.sure) == (True, "koi8_r", True)


def test_the_next_encoding_is_tried_if_the_likeliest_cannot_decode_the_rest() -> None:
    """Bytes behind the sample that the likeliest encoding does not have: the next is taken, and is
    no sure one."""
    data = (RUSSIAN.encode("cp1251") + b"\n") * 200 + b"\x98\n"
    with suppress(UndecodableError):
        assert not decoded(data, "", FALLBACKS).sure
