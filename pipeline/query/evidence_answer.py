"""The evidence itself as an answer, for a project without a chat model."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.phrases.lexicon import STARTERS, guess_language, stop_words
from pipeline.query.citations.annotations import Annotation, Cited
from pipeline.query.context import Context, Reference
from pipeline.query.entity_table import Marks, describe_properties, group_attributes
from pipeline.query.marks import inert
from pipeline.query.search.versions import find_newer, find_preferred
from pipeline.stores.records import Passage, Relationship
from pipeline.text.ids import words
from pipeline.text.sentences import find_sentences

NOTICE = "No chat model is configured: this is the evidence itself, not an answer."
BEST = "Most likely: "
"""Mark of the sentence that shares most with the question."""
PASSAGES, FACTS, PASSAGE_LENGTH = 5, 10, 700
"""Most passages and most facts shown, and most characters of each text."""
NUMBER = 1.5
"""Weight of a number in a sentence for a question that asks for one, in rarest words. It is more
than one word: "How high is it?" is not answered by "It is high"."""
FEWEST_SHARED = 2
"""The fewest words that a sentence shares with the question. One alone is found by chance."""
LONGEST_COMPARISON = 1000
"""Characters of a question in which two sides are searched: the time grows with their square."""
_BLOCK = re.compile(r"\s*(?:#{1,6} |[-*+•] |\d{1,3}[.)] |\||>|```|~~~)| {4}|\t")
"""The beginning of a line that is a heading, an item of a list, a row of a table, or code."""
_ENDS = re.compile(r"""[.!?。！？]["'”’»)]*$""")
"""The end of a sentence, which a title on a line of its own does not have."""
_STATES = re.compile(r"[\d:：]")
"""A sign that a short line states something though it has no end mark."""
LONGEST_HEADING = 12
"""The most words of a line without an end mark that counts as a heading."""
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|high|long|old|far|often|deep|wide)|what year|which year|"
    r"wann|wie ?viele?|wie (?:hoch|lange?|alt|weit|oft))\b",
    re.IGNORECASE,
)
_NAME = r"[^\W\d_a-z][\w-]*(?: [^\W_a-z][\w-]*)*"
_SIDES = re.compile(rf"(?P<one>{_NAME}),? (?:or|vs\.?|versus|oder)(?: \w+)? (?P<other>{_NAME})")
_JOINED_SIDES = re.compile(
    r"(?:between|compare|compared|differ|difference|zwischen|vergleiche|unterscheiden)\b"
    rf"[^.?!]*?(?P<one>{_NAME}) (?:and|with|to|from|und|mit|von)(?: \w+)? (?P<other>{_NAME})"
)


def build_evidence_answer(
    context: Context, question: str = "", prefer: str = "relevance"
) -> tuple[str, Cited]:
    """Return a text of the best reports, passages, facts and properties, and its citations.

    The first line is NOTICE. The sentence that shares most with the question comes next. Of a
    comparison, passages on both sides come in turn. The options --only-need-context and --json show
    all evidence.
    """
    ordered = take_sides_in_turn(context.references, question)
    references = ordered[:PASSAGES]
    passages = [_passage(entry) for entry in references]
    best = find_likely_sentence(context, references, question, prefer)
    first = [] if best is None else [f"{BEST}{best[0]} [{best[1]}]"]
    reports = [
        f"Report {report.number}: {inert(report.title)}. {_shorten(report.summary)}"
        for report in context.reports.records[:PASSAGES]
    ]
    number_of_unit = {entry.chunk_id: entry.id for entry in context.references}
    facts: list[str] = []
    for link in context.relationships.records[:FACTS]:
        shown = [number_of_unit[unit] for unit in link.text_unit_ids if unit in number_of_unit]
        facts.append(_fact_line(link, shown[0] if shown else None))
    marks = {unit: f"[{number}]" for unit, number in number_of_unit.items()}
    properties = _list_properties(context, marks)
    parts = [NOTICE, *first, *reports, *passages]
    if facts:
        parts.append("Facts:\n" + "\n".join(facts))
    if properties:
        parts.append("Properties:\n" + "\n".join(properties))
    text = "\n\n".join(parts)
    # Texts from the stores are inert here, so each number in brackets was written by this function.
    # It needs no comparison: a passage is its own source, and a fact names its text unit.
    marks = re.finditer(r"\[(\d{1,9})\]", text)
    annotations = [
        Annotation(mark.start(), mark.end(), int(mark[1]), supported=True) for mark in marks
    ]
    sources = list(dict.fromkeys(annotation.number for annotation in annotations))
    return text, Cited(sources=sources, annotations=annotations)


def find_sides(question: str) -> tuple[str, str] | None:
    """Return the two names that the question compares, as in "Heron or Plover?"; None if none."""
    question = question[:LONGEST_COMPARISON]
    found = _SIDES.search(question) or _JOINED_SIDES.search(question)
    return (found["one"], found["other"]) if found else None


def take_sides_in_turn(references: Sequence[Reference], question: str) -> list[Reference]:
    """Return the references so that the two sides of a comparison come in turn, then the rest.

    A passage that names both sides counts for the first of them that has its turn.
    """
    sides = find_sides(question)
    if sides is None:
        return list(references)
    remaining = list(references)
    in_turn: list[Reference] = []
    names = [side.casefold() for side in sides]
    for turn in range(len(references)):
        name = names[turn % 2]
        next_on_side = next((entry for entry in remaining if name in _fold_passage(entry)), None)
        if next_on_side is not None:
            remaining.remove(next_on_side)
            in_turn.append(next_on_side)
    return [*in_turn, *remaining]


def find_likely_sentence(
    context: Context, references: Sequence[Reference], question: str, prefer: str
) -> tuple[str, int] | None:
    """Return the best sentence of the references and its number, of versions that of the preferred.

    Of a version that is marked as such one shared word is enough: its subject is known to be the
    same. Of one that only its name, title or date tells, the sentence must share FEWEST_SHARED
    words or half as many as the best one. Versions without such a sentence are passed over.
    ``prefer`` is the option of the request.
    """
    best = find_best_sentence(references, question)
    if best is None:
        return None
    passages = context.chunks.records
    preferred_to = _number_versions(passages, find_preferred(passages, question, prefer))
    newer_than = _number_versions(passages, find_newer(passages))
    asked = _content_words(question)
    remaining = references
    while True:
        text, number = best
        preferred = preferred_to.get(number, set())
        # The best one is not preferred to itself, so fewer remain each time.
        remaining = [entry for entry in remaining if entry.id in preferred]
        n_shared = len(asked & set(words(text)))
        fewest_if_unsure = min(FEWEST_SHARED, math.ceil(n_shared / 2))
        fewest: dict[int, int] = {}
        for entry in remaining:
            is_marked = entry.id in newer_than[number] or number in newer_than[entry.id]
            fewest[entry.id] = 1 if is_marked else fewest_if_unsure
        of_preferred = find_best_sentence(remaining, question, fewest)
        if of_preferred is None:
            return best
        best = of_preferred


def _number_versions(
    passages: Sequence[Passage], versions: Mapping[str, Sequence[Passage]]
) -> dict[int, set[int]]:
    """Return the number of each passage -> those of its versions, which are given by its id."""
    return {
        passage.number: {other.number for other in versions[passage.id]} for passage in passages
    }


def find_best_sentence(
    references: Sequence[Reference], question: str, fewest: Mapping[int, int] | None = None
) -> tuple[str, int] | None:
    """Return the sentence that shares the rarest words with the question, and its reference's id.

    A word counts by its rarity in the passages. A word of the passage's title counts half, in every
    sentence: all of them are about it, so it does not tell which of them answers. Headings and
    tables are no sentences. Of equal sentences the first counts. The result is None if no sentence
    has FEWEST_SHARED words of the question, together with the title. ``fewest`` replaces this: the
    id of a reference -> the words that a sentence must have by itself.
    """
    question_words = set(words(question))
    asked = _content_words(question)
    weights = _weigh_by_rarity(asked, references)
    bonus_for_number = 0.0
    if _ASKS_NUMBER.search(question):
        bonus_for_number = NUMBER * max(weights.values(), default=0.0)
    best: tuple[str, int] | None = None
    best_score = 0.0
    for entry in references:
        in_title = asked & set(words(entry.title))
        score_of_title = sum(weights[word] for word in in_title) / 2
        for sentence in _list_sentences(entry.content):
            sentence_words = set(words(sentence))
            if sentence_words <= question_words and not _ENDS.search(sentence):
                # A name that the question has, on a line of its own, answers nothing.
                continue
            shared = asked & sentence_words
            if fewest is None:
                shares_enough = len(shared | in_title) >= FEWEST_SHARED
            else:
                shares_enough = len(shared) >= fewest[entry.id]
            if not shared or not shares_enough:
                continue
            score = score_of_title + sum(weights[word] for word in shared - in_title)
            if any(character.isdigit() for character in sentence):
                score += bonus_for_number
            if best is None or score > best_score:
                best = _shorten(sentence), entry.id
                best_score = score
    return best


def _weigh_by_rarity(asked: set[str], references: Sequence[Reference]) -> dict[str, float]:
    """Return the weights of those of the words that a passage has; a rare word weighs more."""
    frequency: Counter[str] = Counter()
    for entry in references:
        in_passage = set(words(f"{entry.title} {entry.content}"))
        frequency.update(asked & in_passage)
    n_passages = len(references)
    return {word: math.log(1 + n_passages / count) for word, count in frequency.items()}


def _content_words(question: str) -> set[str]:
    """Return the stems of the question's words without those that say little in its language."""
    folded = re.findall(r"\w+", question.lower())
    language = guess_language(folded)
    # The list of English stop words has nouns as "mill" too.
    ignored = STARTERS if language == "en" else stop_words(language)
    telling = [word for word in folded if word not in ignored]
    return set(words(" ".join(telling)))


def _fold_passage(entry: Reference) -> str:
    """Return title and text of a passage, to be compared without regard to case."""
    return f"{entry.title}\n{entry.content}".casefold()


def _list_sentences(text: str) -> list[str]:
    """Return the sentences of the paragraphs and lists of a text, each on one line."""
    sentences: list[str] = []
    for block in _join_lines(text):
        is_marked = block.lstrip().startswith(("#", "|", "```", "~~~"))
        if not is_marked and not _is_plain_heading(block):
            sentences += [block[start:end].strip() for start, end in find_sentences(block)]
    return sentences


def _is_plain_heading(block: str) -> bool:
    """Check that a block is a heading of a text without markup: short, and without an end mark.

    An item of a list may answer, and so may a line with a number or a colon ("Height: 41 m").
    """
    if _BLOCK.match(block) or _STATES.search(block):
        return False
    return len(block.split()) <= LONGEST_HEADING and not _ENDS.search(block)


def _passage(entry: Reference) -> str:
    """Return the number of the passage and its text; headings, lists and tables keep their lines.

    A text that begins with such a line begins on a line of its own.
    """
    text = inert("\n".join(_join_lines(entry.content)))
    if len(text) > PASSAGE_LENGTH:
        text = f"{text[:PASSAGE_LENGTH].rstrip()} ..."
    between = "\n" if _BLOCK.match(text) else " "
    return f"[{entry.id}]{between}{text}"


def _join_lines(text: str) -> list[str]:
    """Return the lines of the text; those of one paragraph are one line, without blank lines."""
    # Parts are joined at the end: a text that grows by each line takes the square of their number.
    parts_of_lines: list[list[str]] = []
    continues = False
    for line in text.splitlines():
        is_block = _BLOCK.match(line) is not None
        if not line.strip():
            continues = False
        elif is_block or not continues:
            parts_of_lines.append([line.rstrip() if is_block else " ".join(line.split())])
            continues = not is_block
        else:
            parts_of_lines[-1].append(" ".join(line.split()))
    return [" ".join(parts) for parts in parts_of_lines]


def _list_properties(context: Context, marks: Marks) -> list[str]:
    """Return a line for each of the first FACTS shown entities that have properties."""
    of_entity = group_attributes(context.attributes)
    described = [entity for entity in context.entities.records if entity.id in of_entity]
    lines: list[str] = []
    for entity in described[:FACTS]:
        values = describe_properties(of_entity[entity.id], marks)
        lines.append(f"- {_shorten(entity.name)}: {values}")
    return lines


def _fact_line(link: Relationship, number: int | None) -> str:
    """Return a line for the relationship, with the number of a shown passage that is its source.

    A relationship without a description, such as a row of a table, is told by its keywords. The
    first of them is its type.
    """
    ends = f"{inert(link.source)} -> {inert(link.target)}"
    told = link.description or ", ".join(link.keywords)
    after_ends = f": {_shorten(told)}" if told else ""
    mark = "" if number is None else f" [{number}]"
    return f"- {ends}{after_ends}{mark}"


def _shorten(text: str) -> str:
    """Return the text on one line, cut to PASSAGE_LENGTH characters."""
    flat = inert(" ".join(text.split()))
    return flat if len(flat) <= PASSAGE_LENGTH else f"{flat[:PASSAGE_LENGTH].rstrip()} ..."
