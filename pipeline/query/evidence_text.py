"""The evidence as a person reads it: the answer where no chat model is configured."""

from pipeline.query.context import Context

REPORT = ("number", "title", "summary")
NOTICE = "No chat model is configured: this is the evidence itself, not an answer."
PASSAGES, FACTS, PASSAGE_LENGTH = 5, 10, 700


def evidence_text(context: Context) -> str:
    """The notice in its first line, then the best passages and facts. All of it: --only-need-context, --json."""
    numbers = {reference.document_id: reference.id for reference in context.references}
    chunks = context.chunks.records.head(PASSAGES)
    passages = [
        f"[{numbers[document]}] {_clipped(content)}"
        for document, content in zip(chunks["document_id"], chunks["content"], strict=True)
    ]
    links = context.relationships.records.head(FACTS)
    facts = [
        f"- {source} -> {target}: {_clipped(description)}"
        for source, target, description in links[["source", "target", "description"]].itertuples(index=False)
    ]
    reports = context.reports.records.head(PASSAGES)
    told = [
        f"Report {number}: {title}. {_clipped(summary)}"
        for number, title, summary in zip(*(reports.get(name, ()) for name in REPORT), strict=True)
    ]
    parts = [NOTICE, *told, *passages, *(["Facts:\n" + "\n".join(facts)] if facts else [])]
    return "\n\n".join(parts)


def _clipped(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= PASSAGE_LENGTH else f"{flat[:PASSAGE_LENGTH].rstrip()} ..."
