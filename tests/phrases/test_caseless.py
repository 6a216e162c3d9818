"""Key phrases and quoted names in scripts without capital letters."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases.caseless import is_caseless
from pipeline.phrases.mentions import Sentence, read_sentences
from pipeline.phrases.titles import Gazetteer

ARABIC = (
    "افتتحت بلدية الميناء القديم مكتبة جديدة قرب المنارة. وتضم المكتبة كتبا عن تاريخ الملاحة. "
    "وقالت مديرة المكتبة إن تاريخ الملاحة في المدينة يعود إلى قرون. "
    "وأصدرت بلدية الميناء القديم كتابا بعنوان «ذاكرة البحر» عن الضوء (Harbour Light) في الخليج."
)
HEBREW = (
    "הספרייה נפתחה ליד המגדלור. בספרייה העירונית יש ספרים על תולדות הספנות. "
    'מנהלת הספרייה אמרה כי תולדות הספנות בעיר ארוכות. הספר "זיכרון הים" מספר על הדייגים.'
)
HINDI = (
    "नगर पालिका ने पुराने बंदरगाह के पास एक पुस्तकालय खोला है। पुस्तकालय में समुद्री व्यापार के"
    ' इतिहास पर किताबें हैं। समुद्री व्यापार बहुत पुराना है। नगर पालिका ने "सागर की स्मृति" नाम की'
    " किताब छापी।"
)
KOREAN = (
    "항구 도시의 시립 도서관이 옛 등대 옆에 문을 열었다. 시립 도서관은 해운 역사를 다룬 책을"
    " 갖추었다. "
    '해운 역사가 길다고 말했다. 시청은 "바다의 기억"이라는 책을 냈다. 고양이가 등대에 산다.'
    " 고양이는 등대에서 잔다."
)
THAI = (
    "เทศบาลเมืองท่าเปิดห้องสมุดประชาชนใกล้ประภาคารเก่า ห้องสมุดประชาชนมีหนังสือเกี่ยวกับการเดินเรือ"
    ' เทศบาลพิมพ์หนังสือชื่อ "ความทรงจำแห่งทะเล" ประภาคารเก่ามีผู้ดูแลหนึ่งคน'
)
PERSIAN = "فانوس دریایی کنار بندر است. فانوس دریایی یک نگهبان دارد و کتابخانه‌ای تازه دارد."
TAMIL = "பழைய துறைமுகம் அருகே நூலகம் திறக்கப்பட்டது. பழைய துறைமுகம் பழமையானது. நூலகம் பெரியது."
JAPANESE = "みなとのライトハウスはふるいです。ライトハウスにはひとがすんでいます。"


def read(text: str) -> list[Sentence]:
    return read_sentences(text, Gazetteer([]))


def concepts(text: str) -> set[str]:
    found = [phrase.text for sentence in read(text) for phrase in sentence.phrases if phrase.noun]
    return {phrase for phrase in found if found.count(phrase) > 1}


def names(text: str) -> list[str]:
    return [name.text for sentence in read(text) for name in sentence.names]


@pytest.mark.parametrize(
    ("text", "phrases", "quoted"),
    [
        (
            ARABIC,
            {"بلدية الميناء القديم", "تاريخ الملاحة", "المكتبة"},
            ["ذاكرة البحر", "Harbour Light"],
        ),
        (HEBREW, {"הספרייה", "תולדות הספנות"}, ["זיכרון הים"]),
        (HINDI, {"नगर पालिका", "पुस्तकालय", "समुद्री व्यापार"}, ["सागर की स्मृति"]),
        (KOREAN, {"시립 도서관", "해운 역사", "등대", "고양이"}, ["바다의 기억"]),
        (THAI, {"เทศบาล", "ห้องสมุดประชาชน", "ประภาคารเก่า"}, ["ความทรงจำแห่งทะเล"]),
        (PERSIAN, {"فانوس دریایی"}, []),
        (TAMIL, {"பழைய துறைமுகம்"}, []),
        (JAPANESE, {"ライトハウス"}, []),
    ],
    ids=["arabic", "hebrew", "hindi", "korean", "thai", "persian", "tamil", "japanese"],
)
def test_repeated_words_are_phrases_and_quotations_are_names(text, phrases, quoted):
    found = concepts(text)
    assert phrases <= found
    assert len(found) <= len(phrases) + 1
    assert names(text) == quoted


def test_no_phrase_contains_a_stop_word():
    assert concepts("هذا الذي كان في هذا الذي كان في") == set()
    assert concepts("यह है और यह है और") == set()


def test_a_joined_prefix_is_removed_if_the_rest_is_a_word_of_the_text():
    assert concepts("المدينة قديمة. والمدينة قريبة.") == {"المدينة"}
    assert concepts("ورقة صفراء طويلة. هناك ورقة بيضاء.") == {"ورقة"}, (
        "its first letter is no 'and'"
    )


def test_a_particle_is_removed_only_if_it_agrees_with_the_sound_before_it():
    assert concepts("전문가 회의, 전문가 회의.") == {"전문가 회의"}, (
        "가 stands after a vowel, 의 after two syllables"
    )
    assert concepts("고양이 그림. 고양이는 그림.") == {
        "고양이",
        "그림",
    }, "what takes a particle has none"


def test_a_quotation_of_many_words_or_of_a_sentence_is_no_name():
    assert names('אמר "לא נלך מחר אל הנמל הישן" והלך. אמר "לא, תודה" והלך.') == []


def test_a_text_is_caseless_if_most_of_its_letters_have_no_capitals():
    assert is_caseless("مدينة NATO")
    assert not is_caseless("the town of مدينة in the east")
    assert not is_caseless("Nº 3, 1ª")
    assert not is_caseless("雾港的灯塔")
    assert not is_caseless("Москва и Αθήνα")


PIECES = [
    *'"«»“”() .,،।\n가는이ー',
    *(
        word
        for text in (ARABIC, HEBREW, HINDI, KOREAN, THAI, TAMIL, JAPANESE)
        for word in text.split()
    ),
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
    | st.lists(st.sampled_from(PIECES)).map(" ".join)
)
def test_offsets_are_within_their_sentence_for_any_text(text):
    for sentence in read(text):
        assert all(
            sentence.text[name.start : name.end] == name.text
            for name in sentence.names
            if name.type == "name"
        )
        assert sentence.names == sorted(sentence.names)
        assert all(
            0 <= phrase.start < phrase.end <= len(sentence.text) and phrase.text
            for phrase in sentence.phrases
        )
        places = [(part.start, part.end) for part in sorted([*sentence.names, *sentence.phrases])]
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
