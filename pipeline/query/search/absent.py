"""Words and names of a question that no passage has.

They are told to the reader and to the model, and never change what is found: a question about
something else in the same words is often answered by passages that lack one of its words.
"""

import re
from collections.abc import Sequence

from pipeline.phrases.lexicon import CALENDAR, LABELS, STARTERS, VERBS, guess_language, stop_words
from pipeline.stores.reads import VectorReads
from pipeline.stores.records import Passage
from pipeline.text.common_words import is_common
from pipeline.text.compounds import Compound, compound_pattern, find_heads, join_nouns
from pipeline.text.ids import stem, words
from pipeline.text.terms import Term, shorten, split_compound

MOST_TERMS = 30
"""Most terms of a question that are looked for."""
MOST_TOLD = 5
"""Most terms that a note names."""
SHORTEST_WORD = 5
"""Letters of the shortest ordinary word that is looked for."""
COMPOUNDING = frozenset(("de", "nl"))
"""The languages of `pipeline.phrases.lexicon` that write compounds as one word."""
LONGEST_TERM = 100
"""Characters of the longest term that is looked for. PostgreSQL refuses a search for a word of more
than 2,046 bytes."""
LONGEST_READ = 10_000
"""Characters of a question in which terms are found; a longer one is a text rather than a question.
"""
# Scripts whose words have spaces between them and their endings at the end.
_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏͰ-ϿЀ-ӿ"
_KATAKANA = re.compile("[ァ-ヺー]{3,}")
"""Katakana, in which Japanese writes foreign names. Of other Han and kana nothing can be said: it
is not known where a word ends."""
_TOKEN = re.compile(rf"[{_LETTERS}][{_LETTERS}0-9]*|(?<![0-9.,])[0-9]+(?![0-9]|[.,][0-9])")
_SCRIPTS = tuple(
    re.compile(f"[{letters}]") for letters in ("A-Za-zÀ-ÖØ-öø-ɏ", "Ͱ-Ͽ", "Ѐ-ӿ", "ァ-ヺー一-鿿ぁ-ゖ")
)
"""The scripts of terms: Latin, Greek, Cyrillic, and that of Japanese."""
_LETTER = re.compile(r"[^\W\d_]")
_FOLDED_WORD = re.compile(r"[^\W\d_]+")
FEWEST_STOP_WORDS = 3
"""Fewest stop words by which a passage is known to be in another language than the question."""
_BETWEEN_CODE = re.compile(r"[ /-]")
_YEAR = re.compile("[12][0-9]{3}")
_SENTENCE_ENDS = ".?!:;¿¡\n"
# Words that say how to answer, not about what.
_ASKING = frozenset(
    """
    list name names describe explain give tell show compare summarize summarise difference
    differences different mention mentions mentioned mean means meaning called state states find
    know information details detail example examples question answer document documents passage
    passages text texts say says said please kind kinds type types sort thing things someone
    something many much often long nenne nenn beschreibe erkläre zeige vergleiche unterschied
    unterschiede welche welcher welches welchem welchen warum wieso weshalb wofür wodurch womit
    worin wovon
    """.split()
)
_NEVER_TOLD = _ASKING | STARTERS | CALENDAR | LABELS | VERBS


def find_absent_terms(
    question: str, passages: Sequence[Passage], vectors: VectorReads
) -> list[Term]:
    """Return the terms of the question that no text unit has, in the order of the question.

    The store is asked only about terms that none of ``passages`` has; it is one read. Two German
    nouns of which a text unit has the compound are not absent, nor is one with which a compound in
    ``passages`` ends. Terms of a language in which none of ``passages`` is written are left out.
    """
    terms = [term for term in list_terms(question) if not _is_in_any(term, passages)]
    ends = _find_ends_of_compounds(question, passages)
    terms = [term for term in terms if term.number or ends.isdisjoint(words(term.text))]
    if not terms:
        return []
    compounds = join_nouns(question[:LONGEST_READ])
    as_terms = [
        Term(spelling, words(spelling)[0])
        for compound in compounds
        for spelling in compound.spellings
        if len(spelling) <= LONGEST_TERM
    ]
    lacking = vectors.lacking([*terms, *as_terms])
    in_compounds = _nouns_in_compounds(compounds, as_terms, lacking)
    absent = [term for term in lacking if term in terms and term.text not in in_compounds]
    return _drop_foreign(_drop_parts_of_codes(absent), question, passages)


def _drop_foreign(terms: Sequence[Term], question: str, passages: Sequence[Passage]) -> list[Term]:
    """Return the terms that would be in the passages if these spoke of them.

    A passage in another language has a translation, and in another script another spelling of a
    name. Numbers and codes are the same everywhere.
    """
    if not terms or not passages:
        return list(terms)
    texts = [passage.content for passage in passages]
    asked = _FOLDED_WORD.findall(question[:LONGEST_READ].lower())
    language = guess_language(asked)
    # English is also guessed of a question without any stop word.
    is_known = not stop_words(language).isdisjoint(asked)
    has_language = not is_known or any(not _is_in_other_language(text, language) for text in texts)
    kept: list[Term] = []
    for term in terms:
        # A capital does not tell a name from another German noun.
        is_word = not term.is_name or language == "de"
        is_same_everywhere = any(character.isdigit() for character in term.text)
        has_script = any(_is_in_script_of(term, text) for text in texts)
        if is_same_everywhere or (has_script and (has_language or not is_word)):
            kept.append(term)
    return kept


def _is_in_other_language(text: str, language: str) -> bool:
    """Return whether the stop words of a text show that it is in another language.

    It is not known of a text with few stop words.
    """
    told = _FOLDED_WORD.findall(text.lower())
    of_text = guess_language(told)
    n_own = sum(word in stop_words(of_text) for word in told)
    n_of_language = sum(word in stop_words(language) for word in told)
    # Languages share some stop words, so the difference has to be large.
    return n_own >= FEWEST_STOP_WORDS and n_own > 2 * n_of_language


def _is_in_script_of(term: Term, text: str) -> bool:
    """Return whether at least half of the letters of the text are of the script of the term."""
    script = next((script for script in _SCRIPTS if script.search(term.text)), None)
    letters = len(_LETTER.findall(text))
    if script is None or not letters:
        return True
    return 2 * len(script.findall(text)) >= letters


def _find_ends_of_compounds(question: str, passages: Sequence[Passage]) -> set[str]:
    """Return the nouns of a German question with which a compound in one of the passages ends.

    They are as ``words`` has them.
    """
    contents = [passage.content.lower() for passage in passages]
    ends: set[str] = set()
    for head in find_heads(question[:LONGEST_READ]):
        pattern = re.compile(compound_pattern(head))
        # Most passages lack the noun, and the pattern is slow.
        if any(head in content and pattern.search(content) for content in contents):
            ends.add(stem(head))
    return ends


def _nouns_in_compounds(
    compounds: Sequence[Compound], asked: Sequence[Term], lacking: Sequence[Term]
) -> set[str]:
    """Return the nouns of the compounds of which a text unit has a spelling."""
    present = {term.text for term in asked if term not in lacking}
    nouns: set[str] = set()
    for compound in compounds:
        if present.intersection(compound.spellings):
            nouns.update(compound.nouns)
    return nouns


def describe_absence(terms: Sequence[Term], filtered: bool) -> str:
    """Return a clause that says which terms no passage has; "" if there are none.

    ``filtered``: whether only passages that a filter of the question admits were looked at.
    """
    if not terms:
        return ""
    named = [term.text if term.is_name else f'"{term.text}"' for term in terms[:MOST_TOLD]]
    *others, last = named
    listed = f"{', '.join(others)} or {last}" if others else last
    passage = "no passage that the filter admits" if filtered else "no passage"
    return f"{passage} mentions {listed}"


def list_terms(question: str) -> list[Term]:
    """Return the names, numbers, codes and rarer words of the question, each once.

    Stop words, words that only ask, common words, labels of parts as in "Table 4", and names of
    months and days are left out, and so are terms longer than LONGEST_TERM.
    """
    question = question[:LONGEST_READ]
    found = list(_TOKEN.finditer(question))
    language = guess_language([token[0].lower() for token in found])
    is_english = language == "en"
    ignored = _NEVER_TOLD | stop_words("en") | stop_words(language)
    # In capitals throughout, a word is no name for its capital.
    has_case = not question.isupper()
    terms: dict[str, Term] = {}
    joined = False
    for place, token in enumerate(found):
        word = token[0]
        folded = word.lower()
        if joined or folded in ignored:
            joined = False
            continue
        if word.isdigit():
            if len(word) > 1:
                terms.setdefault(word, Term(word, number=word))
            continue
        is_name = _is_name(question, token, has_case)
        if not is_name and (len(word) < SHORTEST_WORD or is_common(folded, is_english)):
            continue
        # A letter that lower case writes as two characters splits the word, as in "İzmir".
        if len(words(word)) != 1:
            continue
        follower = found[place + 1] if place + 1 < len(found) else None
        number = _number_of_code(question, token, follower)
        exact = is_name and (is_english or bool(number))
        beginning = words(word)[0] if exact else shorten(word)
        may_be_compound = language in COMPOUNDING and not number
        parts = split_compound(folded) if may_be_compound else ()
        if number and follower is not None and is_name:
            text = question[token.start() : follower.end()]
            # The number alone is no term: it means little without its name.
            terms.setdefault(text, Term(text, beginning, number))
            joined = True
        terms.setdefault(word, Term(word, beginning, is_name=is_name, parts=parts))
    for name in _KATAKANA.findall(question):
        terms.setdefault(name, Term(name, name))
    short = [term for term in terms.values() if len(term.text) <= LONGEST_TERM]
    return short[:MOST_TERMS]


def _drop_parts_of_codes(terms: Sequence[Term]) -> list[Term]:
    """Return the terms without names that are a part of a code among them.

    If nothing has "Zephyr", nothing has "Zephyr 99" either, and the longer one says both.
    """
    codes = {term.beginning for term in terms if term.beginning and term.number}
    return [term for term in terms if term.number or term.beginning not in codes]


def _is_in_any(term: Term, passages: Sequence[Passage]) -> bool:
    return any(term.is_in(passage.content) or term.is_in(passage.title) for passage in passages)


def _is_name(question: str, token: re.Match[str], has_case: bool) -> bool:
    """Return whether the word is written as a name: with a capital within a sentence, with several
    capitals, or with digits."""
    word = token[0]
    if any(character.isdigit() for character in word):
        return True
    n_capitals = sum(character.isupper() for character in word)
    if not has_case or not n_capitals:
        return False
    before = question[: token.start()].rstrip(" \"'“„«(")
    opens_sentence = not before or before[-1] in _SENTENCE_ENDS
    return n_capitals > 1 or not opens_sentence


def _number_of_code(question: str, token: re.Match[str], follower: re.Match[str] | None) -> str:
    """Return the number that makes a code of the name before it; "" if none. A year does not."""
    if follower is None or not follower[0].isdigit() or _YEAR.fullmatch(follower[0]):
        return ""
    between = question[token.end() : follower.start()]
    return follower[0] if _BETWEEN_CODE.fullmatch(between) else ""
