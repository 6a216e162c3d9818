"""Test names and key phrases in sentences, and the entities that names mean."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases import latin
from pipeline.phrases.keyphrases import candidate_phrases, rake_scores
from pipeline.phrases.latin import find_names
from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.phrases.mentions import OwnTitle, Sentence, read_sentences, resolve_names
from pipeline.phrases.names import is_chinese, short_forms
from pipeline.phrases.titles import Gazetteer, title_aliases, title_name

NO_TITLES = Gazetteer([])


def names(sentence: str, *titles: str, language: str = "en") -> list[str]:
    found = find_names(sentence, Gazetteer.of_titles(titles), language)
    return [name.text for name in found if not name.doubtful]


def types(sentence: str) -> dict[str, str]:
    return {name.text: name.type for name in find_names(sentence, NO_TITLES)}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("We sailed past the Harrow Light at dusk.", ["Harrow Light"]),
        ("The Harrow Light burns.", ["Harrow Light"]),
        ("In Tessing the fog lasted.", ["Tessing"]),
        ("They met J. R. Marlow there.", ["J. R. Marlow"]),
        ("It was Élodie Çelik-Šimůnková who wrote.", ["Élodie Çelik-Šimůnková"]),
        ("She left the Institute of Tides.", ["Institute of Tides"]),
        ("He joined the Ministry of Fish and Tides.", ["Ministry of Fish and Tides"]),
        ("They founded a Society for the Deaf.", ["Society for the Deaf"]),
        (
            "It was painted by Vincent van der Moor and Ana de la Cruz.",
            ["Vincent van der Moor", "Ana de la Cruz"],
        ),
        ("He saw Apollo 11 and a Type 45.", ["Apollo 11", "Type 45"]),
        ("It belongs to NATO, AT&T, O'Brien and an iPhone.", ["NATO", "AT&T", "O'Brien", "iPhone"]),
        ("It was Mira Vale's lamp.", ["Mira Vale"]),
        ("It was Mira Vale's Harbour Guild.", ["Mira Vale", "Harbour Guild"]),
        ("They sang in St. Mary's Abbey.", ["St. Mary's Abbey"]),
        ("He wrote of Mira Vale of the Harbour Guild.", ["Mira Vale", "Harbour Guild"]),
        ("She admired Aldric II of Hallowfell.", ["Aldric II of Hallowfell"]),
        ("We read of Alexander the Great.", ["Alexander the Great"]),
        ("Some Paris-based firms closed.", ["Paris"]),
        ("They met on Monday, 12 May 1923 and in October 821.", []),
        ("Submitted by me on 3 March from Tessing 9 October.", ["Tessing"]),
        ("He and I met an American writer who spoke French.", []),
        ("See Table 4 and Figure II.", []),
        ("In 931 it was J. R. and I who left.", []),
        ("Today the WHO and UNICEF met the US in Geneva.", ["WHO", "UNICEF", "US", "Geneva"]),
        ("WHO met us when IT failed.", ["WHO", "IT"]),
        (
            "He played in Major League Baseball for 20th Century Fox.",
            ["Major League Baseball", "20th Century Fox"],
        ),
        ("They met Martin King, Jr. there.", ["Martin King Jr."]),
        (
            "They met Ann Moor & Bob Vale of Simon & Ballard.",
            ["Ann Moor", "Bob Vale", "Simon & Ballard"],
        ),
        (
            "He saw Prince Edward Island and a German-Ukrainian in May–June.",
            ["Prince Edward Island"],
        ),
        ("They went to the Universities and to War, to Ltd.", []),
        ("Dear Anna, we met all.", ["Anna"]),
        ("The end came. ", []),
        ("", []),
    ],
)
def test_names_in_latin_script(sentence, expected):
    assert names(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("There stood Captain Mira Vale.", ["Mira Vale"]),
        ("There stood Vice Admiral Mira Vale.", ["Mira Vale"]),
        ("I wrote to Dr. Vale and young Mr Ballard.", ["Vale", "Ballard"]),
        ("There stood Captain Vale.", ["Captain Vale"]),
        ("He heard of the Bishop of Hallow.", ["Bishop of Hallow"]),
        ("It was built by General Motors.", ["General Motors"]),
        ("The office of U.S. President Ann Moor closed.", ["U.S.", "Ann Moor"]),
    ],
)
def test_titles_of_address_are_removed_if_enough_of_a_name_is_left(sentence, expected):
    assert names(sentence) == expected


def test_a_lone_word_at_the_start_of_a_sentence_is_doubtful():
    assert [
        (name.text, name.doubtful) for name in find_names("Lamps burned in Tessing.", NO_TITLES)
    ] == [
        ("Lamps", True),
        ("Tessing", False),
    ]


def test_names_in_a_sentence_of_capitals_are_doubtful():
    assert all(name.doubtful for name in find_names("NOTICE TO ALL HARBOUR MASTERS", NO_TITLES))


def test_a_lone_german_noun_is_a_name_only_behind_a_preposition():
    text = "Der Kapitän sah das Schiff bei Tessing mit Anna Berg."
    assert names(text, language="de") == ["Tessing", "Anna Berg"]


def test_quoted_works_keep_their_small_words():
    assert types('He wrote "A Lamp in the Harbour," then “Tides for Beginners”.') == {
        "Lamp in the Harbour": "work",
        "Tides for Beginners": "work",
    }


def test_the_text_between_two_quotations_is_no_work():
    assert types(
        'There were David "Noodles" Aaronson and Maximilian "Max" Moor, and" Lamp Light".'
    ) == {
        "David": "name",
        "Aaronson": "name",
        "Maximilian": "name",
        "Moor": "name",
        "Noodles": "name",
        "Max": "name",
        "Lamp Light": "work",
    }


def test_the_head_of_a_name_tells_its_type():
    assert types(
        "Ana (born 1901) of the Harbour Guild saw Lake Annoch and the Treaty of Quill in Tessing."
    ) == {
        "Ana": "person",
        "Harbour Guild": "organization",
        "Lake Annoch": "location",
        "Treaty of Quill": "event",
        "Tessing": "name",
    }
    assert types("We lost the Great Flood of 1927 and the 1998 World Cup.") == {
        "Great Flood of 1927": "event",
        "1998 World Cup": "event",
    }


def test_heads_that_are_surnames_too_are_places_only_behind_a_preposition():
    assert types(
        "They met Benny Hill, Michael Bay and James Badge Dale in Hyde Park and at Lake Annoch."
    ) == {
        "Benny Hill": "name",
        "Michael Bay": "name",
        "James Badge Dale": "name",
        "Hyde Park": "location",
        "Lake Annoch": "location",
    }


def test_titles_are_found_by_their_exact_spelling():
    titles = ["The Sea in the Lamp", "Mamma Mia!", "C++", "C"]
    assert names("He saw The Sea in the Lamp, wrote C++ and sang Mamma Mia! alone.", *titles) == [
        "Sea in the Lamp",
        "C++",
        "Mamma Mia!",
    ]
    assert names("He saw the sea in the lamp.", *titles) == []


def test_a_title_within_a_longer_name_is_found_if_a_connector_joins_the_parts():
    titles = ["Aldric II", "England", "Osmund"]
    assert names("It was Aldric II of Hallowfell.", *titles) == [
        "Aldric II",
        "Aldric II of Hallowfell",
    ]
    assert names("It was New England.", *titles) == ["New England"]
    assert names("It was King Osmund.", *titles) == ["King Osmund", "Osmund"]


@pytest.mark.parametrize(
    ("title", "name", "aliases"),
    [
        ("The Harrow Light", "Harrow Light", []),
        ("Island Baby (film)", "Island Baby (film)", ["Island Baby"]),
        (
            "雾港灯塔（Fog Harbour Light）",
            "雾港灯塔（Fog Harbour Light）",
            ["雾港灯塔", "Fog Harbour Light"],
        ),
        ("Tide Institute, 1826-1958", "Tide Institute, 1826-1958", ["Tide Institute"]),
        ("Vale, Mira (1841-1912), keeper", "Vale, Mira (1841-1912), keeper", ["Mira Vale"]),
        ("Laie, Hawaii", "Laie, Hawaii", []),
        ("(film)", "(film)", []),
    ],
)
def test_title_names_and_aliases(title, name, aliases):
    assert title_name(title) == name
    assert title_aliases(title) == aliases


def test_short_forms_depend_on_the_type_of_the_name():
    assert short_forms("Mira Ann Vale", "person") == ["Mira", "Vale"]
    assert short_forms("Aldric, Margrave of Hallow", "title") == ["Aldric"]
    assert short_forms("Karl · Braun, Physicist", "name") == ["Karl", "Braun"]
    assert "" not in short_forms("· 3rd , Quill", "name")
    assert short_forms("Harbour Guild", "organization") == ["Guild"]
    assert short_forms("Lake Annoch", "location") == []
    assert short_forms("琳内娅·凯萨里", "person") == ["琳内娅", "凯萨里"]
    assert short_forms("Vale", "person") == []


def resolved(text: str, title: str = "", *titles: str) -> dict[str, str]:
    gazetteer = Gazetteer.of_titles(titles)
    found = [name for sentence in read_sentences(text, gazetteer) for name in sentence.names]
    return {
        text: referent.name
        for text, referent in resolve_names(found, OwnTitle(title), gazetteer).items()
    }


def test_a_lone_word_is_short_for_the_one_longer_name_it_belongs_to():
    text = "We know Mira Vale. Vale lit the lamp. Ballard and Hugo Ballard saw Ida Ballard."
    assert resolved(text) == {
        "Mira Vale": "Mira Vale",
        "Vale": "Mira Vale",
        "Hugo Ballard": "Hugo Ballard",
        "Ida Ballard": "Ida Ballard",
    }


def test_a_lone_word_is_short_for_the_title_of_the_document_first():
    text = "We saw Mira Vale and Ida Vale. Vale lit it. They saw Mira Joan Vale."
    assert resolved(text, "Mira Vale")["Vale"] == "Mira Vale"
    assert resolved(text, "Mira Vale")["Mira Joan Vale"] == "Mira Vale"
    assert resolved(text, "Mira Vale (keeper)")["Mira Joan Vale"] == "Mira Vale (keeper)"


def test_a_lone_word_that_is_a_title_is_short_for_nothing():
    assert (
        resolved("They left Tessing for the Tessing Light.", "", "Tessing")["Tessing"] == "Tessing"
    )


def test_doubtful_names_need_confirmation():
    assert resolved("Lamps burned.") == {}
    assert resolved("Tessing burned. We left Tessing.") == {"Tessing": "Tessing"}


def test_key_phrases_are_runs_of_content_words():
    sentence = (
        "Mira Vale trimmed the paraffin lamp of the old harbour light tower painted, quickly."
    )
    found = find_names(sentence, NO_TITLES)
    phrases = candidate_phrases(sentence, found, frozenset(("the", "of", "old", "quickly")))
    assert [(phrase.text, phrase.noun) for phrase in phrases] == [
        ("trimmed", False),
        ("paraffin lamp", True),
        ("harbour light tower", True),
        ("painted", False),
    ]
    assert all(sentence.startswith(phrase.text, phrase.start) for phrase in phrases)


def test_rake_scores_are_degree_over_frequency():
    scores = rake_scores(["linear constraints", "linear systems", "systems", "set"])
    assert scores == {"linear constraints": 4.0, "linear systems": 3.5, "systems": 1.5, "set": 1.0}


def test_language_is_guessed_by_stop_words():
    assert guess_language(["das", "ist", "nicht", "der", "hafen", "und"]) == "de"
    assert guess_language(["the", "harbour", "is", "not", "here"]) == "en"
    assert guess_language([]) == "en"
    assert "und" in stop_words("de")


def chinese(text: str, *titles: str) -> list[Sentence]:
    return read_sentences(text, Gazetteer.of_titles(titles))


def texts(sentence: Sentence) -> list[str]:
    return [name.text for name in sentence.names]


def test_the_tags_of_words_tell_chinese_names():
    (sentence,) = chinese("王小明在上海市的复旦大学工作。")
    assert [(name.text, name.type) for name in sentence.names] == [
        ("王小明", "person"),
        ("上海市", "location"),
        ("复旦大学", "organization"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("潮水到了高潮，高潮过后船才出港。高潮时水位很高。", []),
        ("白壶放在桌上。她喜欢白壶的颜色。", []),
        ("高明说白壶很贵。后来船长高明来了。", ["高明", "高明"]),
        ("他在北京长大。孩子长大了。", ["北京"]),
    ],
)
def test_a_word_tagged_as_a_chinese_person_needs_confirmation(text, expected):
    assert [name for sentence in chinese(text) for name in texts(sentence)] == expected


def test_chinese_name_with_its_latin_form_is_an_alias_and_found_in_other_sentences():
    first, second = chinese(
        "港务长罗洛·因伯(Rollo Imber)在潮汐机(Tide Engine)旁。后来因伯离开了潮汐机。"
    )
    assert texts(first) == ["罗洛·因伯", "Rollo Imber", "潮汐机", "Tide Engine"]
    assert first.aliases == [(0, 1), (2, 3)]
    assert texts(second) == ["因伯", "潮汐机"]


def test_chinese_works_and_titles_are_names():
    (sentence,) = chinese("她在《灯塔守护者之歌》里写到白壶茶社小史的作者。", "白壶茶社小史")
    assert [(name.text, name.type) for name in sentence.names] == [
        ("灯塔守护者之歌", "work"),
        ("白壶茶社小史", "name"),
    ]


def test_chinese_key_words_are_nouns_and_verbs_without_stop_words():
    (sentence,) = chinese("渔民和领航员在这里等待潮水。")
    assert [phrase.text for phrase in sentence.phrases if phrase.noun] == ["渔民", "领航员", "潮水"]


def test_an_acronym_in_brackets_is_an_alias():
    (sentence,) = read_sentences(
        "The Institute of Harbour Tides (IHT) and Tessing (Orvane) agreed.", NO_TITLES
    )
    assert [(texts(sentence)[a], texts(sentence)[b]) for a, b in sentence.aliases] == [
        ("Institute of Harbour Tides", "IHT")
    ]


def test_short_lines_do_not_run_into_each_other():
    (sentence,) = read_sentences(
        "signed by Idra Vasterling\nEngineer to the Harbour Board", NO_TITLES
    )
    assert texts(sentence)[0] == "Idra Vasterling"


def test_a_text_is_chinese_by_its_share_of_chinese_characters():
    assert is_chinese("雾港 lamp")
    assert not is_chinese("the lamp of Fog Harbour, 雾港")
    assert not is_chinese("123")


PIECES = [
    *"AbÉ 1.,'’\"“”()（）《》-&|\n的林海灯塔·",
    "Mira ",
    "the ",
    "of ",
    "Dr. ",
    "’s ",
    "《灯塔》",
    "IV ",
    "May 5",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=60)


@given(TEXTS)
def test_offsets_are_within_their_sentence_for_any_text(text):
    for sentence in read_sentences(text, Gazetteer.of_titles(["Mira", "林海", "A"])):
        assert sentence.names == sorted(sentence.names)
        assert all(0 <= name.start < name.end <= len(sentence.text) for name in sentence.names)
        assert all(name.text.strip() for name in sentence.names)
        assert all(0 <= phrase.start < len(sentence.text) for phrase in sentence.phrases)


def test_no_group_is_repeated_possessively():
    """Check the sources: CPython before 3.11.5 matches such patterns wrongly (gh-106052)."""
    for path in Path(latin.__file__).parent.glob("*.py"):
        assert not re.search(r"\)[*+?]\+", re.sub(r"#.*", "", path.read_text(encoding="utf-8"))), (
            path
        )
