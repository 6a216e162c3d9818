"""Exports of ChatGPT and Slack: who said what and when, and what is no message."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.documents.conversations import slack_exports, slack_place
from pipeline.verbs.load_documents import LoadParams, find_files, load_documents
from tests.documents.test_archives import WORKFLOW, pack
from tests.engine.documents.test_unread import kept, night
from tests.projects import new_project

MORNING = 1714731300.0


def node(id: str, parent: str | None, role: str, *parts: object, **content: object) -> dict:
    message = {
        "author": {"role": role},
        "create_time": MORNING,
        "content": {"content_type": "text", "parts": list(parts), **content},
    }
    return {"id": id, "parent": parent, "message": message}


CHAT = {
    "title": "The lens of Quill Point",
    "conversation_id": "c1",
    "create_time": MORNING,
    "update_time": MORNING + 86_400,
    "current_node": "answer",
    "mapping": {
        "root": {"id": "root", "parent": None, "message": None},
        "system": node("system", "root", "system", "Be brief."),
        "asked": node("asked", "system", "user", "Who built it?", {"asset": "picture"}),
        "dropped": node("dropped", "asked", "assistant", "An answer that was made again."),
        "answer": node("answer", "asked", "assistant", "Mira Vale."),
    },
}


def read(folder: Path, **params: Any) -> tuple[Any, dict[str, str]]:
    documents, rejects = load_documents(LoadParams(path=str(folder), **params))
    return documents, dict(zip(rejects["row_id"], rejects["reason"], strict=True))


def write(folder: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_conversation_of_chatgpt_is_a_document(tmp_path: Path):
    write(tmp_path, {"conversations.json": [CHAT]})
    documents, reasons = read(tmp_path)
    [row] = documents.to_dict("records")
    assert row["text"] == (
        "user, 2024-05-03 10:15:\nWho built it?\n\nassistant, 2024-05-03 10:15:\nMira Vale."
    )
    assert (row["source"], row["title"]) == ("conversations.json#c1", "The lens of Quill Point")
    assert row["date"] == "2024-05-04"
    assert json.loads(row["metadata"]) == {"created": "2024-05-03", "updated": "2024-05-04"}
    assert reasons == {}


@pytest.mark.parametrize(
    "broken",
    [
        {"mapping": {}},
        {"mapping": {"answer": {"message": 7}}},
        {"mapping": {"answer": {**node("answer", "answer", "user"), "parent": "answer"}}},
    ],
)
def test_a_conversation_without_words_costs_itself_alone(tmp_path: Path, broken: dict[str, object]):
    other = {**CHAT, "conversation_id": "c2", "create_time": 1e300, "update_time": "?"}
    write(tmp_path, {"conversations.json": [{**CHAT, **broken}, other]})
    documents, reasons = read(tmp_path)
    assert list(documents["source"]) == ["conversations.json#c2"]
    assert reasons == {"conversations.json:1": "empty"}


@pytest.mark.parametrize(
    "broken",
    [
        {"current_node": None},
        {"current_node": "no such"},
        {"mapping": None},
        {"mapping": []},
        {"mapping": {"answer": []}},
        {"mapping": {"answer": node("answer", "no such", "user", "Half of it.")}},
    ],
)
def test_a_conversation_that_lacks_a_message_is_no_emptied_one(
    tmp_path: Path, broken: dict[str, object]
):
    other = {**CHAT, "conversation_id": "c2"}
    write(tmp_path, {"conversations.json": [{**CHAT, **broken}, other]})
    documents, reasons = read(tmp_path)
    assert list(documents["source"]) == ["conversations.json#c2"]
    assert reasons == {"conversations.json": "in_part", "conversations.json:1": "parse"}


def test_records_that_only_have_such_columns_are_read_as_records(tmp_path: Path):
    record = {"id": "r1", "text": "A row.", "mapping": None, "current_node": "x"}
    write(tmp_path, {"rows.json": [record]})
    documents, reasons = read(tmp_path)
    assert list(documents["text"]) == ["A row."]
    assert reasons == {}


PEOPLE = [
    {"id": "U1", "name": "mira", "profile": {"real_name": "Mira Vale"}},
    {"id": "U2", "name": "torr", "profile": {"real_name": ""}},
]
DAY = [
    {"type": "message", "user": "U2", "ts": "1714731420.0", "thread_ts": "1714731300.0",
     "text": "By <@U1>, see <https://example.org|the plan> &amp; <#C1|light>"},
    {"type": "message", "user": "U2", "ts": "1714731360.0", "text": "Good morning."},
    {"type": "message", "user": "U1", "ts": "1714731300.0", "text": "Who built it?",
     "files": [{"name": "lens.png"}]},
    {"type": "message", "user": "U9", "ts": "1714731500.0", "text": "x", "subtype": "channel_join"},
    {"type": "message", "username": "bot", "ts": "1714731600.0", "text": "Done.",
     "thread_ts": "1714640000.0"},
]  # fmt: skip
EXPORT = {
    "users.json": PEOPLE,
    "channels.json": [{"id": "C1", "name": "light"}],
    "light/2024-05-03.json": DAY,
    "light/2024-05-04.json": [
        {"type": "message", "user": "U1", "ts": "1714817700", "text": "Yes."}
    ],
}


def test_a_day_of_a_slack_channel_is_a_document(tmp_path: Path):
    write(tmp_path, EXPORT)
    documents, reasons = read(tmp_path)
    row = documents.set_index("source").loc["light/2024-05-03.json"]
    assert row["text"] == (
        "bot, 2024-05-03 10:20, in a thread of 2024-05-02:\nDone.\n\n"
        "Mira Vale, 2024-05-03 10:15:\nWho built it?\n[file: lens.png]\n\n"
        "torr, 2024-05-03 10:17, in reply to Mira Vale:\n"
        "By @Mira Vale, see [the plan](https://example.org) & #light\n\n"
        "torr, 2024-05-03 10:16:\nGood morning."
    )
    assert (row["title"], row["date"]) == ("light 2024-05-03", "2024-05-03")
    assert json.loads(row["metadata"])["people"] == ["Mira Vale", "bot", "torr"]
    assert len(documents) == 2
    assert reasons == {"channels.json": "unsupported", "users.json": "unsupported"}


def test_an_export_is_known_by_its_lists_in_a_folder_or_an_archive(tmp_path: Path):
    pack(tmp_path / "slack.zip", {name: json.dumps(rows) for name, rows in EXPORT.items()})
    write(tmp_path / "folder", EXPORT)
    documents, _ = read(tmp_path)
    assert sorted(documents["source"]) == [
        "folder/light/2024-05-03.json", "folder/light/2024-05-04.json",
        "slack.zip/light/2024-05-03.json", "slack.zip/light/2024-05-04.json",
    ]  # fmt: skip
    day = "x/light/2024-05-03.json"
    exports = slack_exports(["x/users.json", "x/channels.json", "users.json", day])
    assert exports == {"x"}
    assert slack_place("x/light/2024-05-03.json", exports) == ("x", "light")
    for other in ("light/2024-05-03.json", "x/light/list.json", "x/a/b/2024-05-03.json"):
        assert slack_place(other, exports) is None


@pytest.mark.parametrize(
    "names",
    [
        ("users.json", "channels.json"),
        ("users.json", "channels.json", "2024-05-03.json"),
        ("x/myusers.json", "x/mychannels.json", "x/light/2024-05-03.json"),
        ("myusers.json", "mychannels.json", "light/2024-05-03.json"),
    ],
)
def test_files_that_are_named_like_lists_alone_are_no_export(names: tuple[str, ...]):
    assert slack_exports(names) == frozenset()


def test_only_the_lists_of_an_export_are_not_read_as_records(tmp_path: Path):
    rows = [{"id": "r1", "text": "A list of lenses."}]
    write(tmp_path, {"users.json": rows, "channels.json": rows, "lenses.json": rows})
    documents, reasons = read(tmp_path)
    assert (len(documents), reasons) == (3, {})
    params = LoadParams(path=str(tmp_path))
    before = find_files(params).set_index("name")["content"]
    write(tmp_path, {"light/2024-05-03.json": DAY})
    documents, reasons = read(tmp_path)
    assert set(documents["source"]) == {"lenses.json#r1", "light/2024-05-03.json"}
    assert reasons == {"users.json": "unsupported", "channels.json": "unsupported"}
    after = find_files(params).set_index("name")["content"].drop("light/2024-05-03.json")
    assert set(after[after != before].index) == {"users.json", "channels.json"}


def test_another_name_changes_the_days_and_no_other_file(tmp_path: Path):
    write(tmp_path, {**EXPORT, "other.json": [{"text": "A letter."}]})
    params = LoadParams(path=str(tmp_path))
    before = find_files(params).set_index("name")["content"]
    write(tmp_path, {"users.json": PEOPLE[:1]})
    after = find_files(params).set_index("name")["content"]
    assert sorted(after[after != before].index) == [
        "light/2024-05-03.json", "light/2024-05-04.json", "users.json",
    ]  # fmt: skip


def test_a_damaged_export_keeps_what_it_gave(tmp_path: Path):
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    place = folder.root / "data/input"
    write(place, EXPORT)
    before = night(folder)[0]
    write(place, {"users.json": "[{", "light/2024-05-04.json": '[{"user": "U1", "te'})
    documents, rejects, _ = night(folder)
    assert documents == before
    assert sorted(kept(rejects)) == ["light/2024-05-03.json", "light/2024-05-04.json"]
    write(place, {"users.json": PEOPLE, "light/2024-05-04.json": [7, {"text": []}, {"ts": {}}]})
    assert night(folder)[0] == before
    whole = json.dumps(DAY)
    write(place, {"light/2024-05-03.json": whole[: whole.rindex("{")]})
    assert night(folder)[0] == before, "the first messages of the day replaced the whole of it"
    write(place, {"light/2024-05-03.json": DAY})
    write(place, {"light/2024-05-04.json": EXPORT["light/2024-05-04.json"]})
    assert kept(night(folder)[1]) == []


def test_columns_of_records_may_differ_by_file(tmp_path: Path):
    write(tmp_path, {
        "crm/a.csv": "nr,subject,body\n7,Lens,The lens is ready.\n",
        "b.csv": "id,title,text\n8,Light,The light is ready.\n",
    })  # fmt: skip
    columns = {"crm/**/*.csv": {"id": "nr", "title": "subject", "text": "body"}}
    documents, reasons = read(tmp_path, columns=columns)
    found = documents.set_index("source")["title"].to_dict()
    assert found == {"b.csv#8": "Light", "crm/a.csv#7": "Lens"}
    assert reasons == {}


def test_a_question_that_was_spoken_and_a_message_of_pictures_alone_are_said(tmp_path: Path):
    heard = {"content_type": "audio_transcription", "text": "Who lit the lamp?"}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-1"}
    chat = {
        **CHAT,
        "current_node": "drawn",
        "mapping": {
            "spoken": node("spoken", None, "user", heard, picture),
            "drawn": node("drawn", "spoken", "assistant", picture),
        },
    }
    write(tmp_path, {"conversations.json": [chat]})
    documents, _ = read(tmp_path)
    assert documents["text"].tolist() == [
        "user, 2024-05-03 10:15:\nWho lit the lamp?\n\nassistant, 2024-05-03 10:15:\n[image]"
    ]


def test_messages_of_slack_in_blocks_and_attachments_alone_are_said(tmp_path: Path):
    bold = {"type": "text", "text": "lamp", "style": {"bold": True}}
    rich = [{"type": "rich_text_section", "elements": [{"type": "text", "text": "The "}, bold]}]
    called = [
        {"type": "user", "user_id": "U1"},
        {"type": "text", "text": " see "},
        {"type": "link", "url": "https://example.org"},
        {"type": "emoji", "name": "bulb"},
    ]
    listed = [
        {"type": "rich_text_section", "elements": called},
        {"type": "rich_text_list", "elements": [
            {"type": "rich_text_section", "elements": [{"type": "text", "text": name}]}
            for name in ("one", "two")
        ]},
        {"type": "context", "elements": [{"text": "Acme"}, {"type": "date", "fallback": "May"}]},
        {"type": "table", "rows": [[{"text": "Kell"}, {"text": "Moor"}]]},
    ]  # fmt: skip
    alert = {"fields": [{"title": "State", "value": "dark"}]}
    section = {"text": {"type": "mrkdwn", "text": "By <@U1>"}, "fields": [{"text": "Field"}]}
    messages = [
        {"user": "U1", "ts": "1714730001", "text": "", "blocks": [{"elements": rich}]},
        {"user": "U1", "ts": "1714730002", "text": "", "blocks": [section]},
        {"username": "bot", "ts": "1714730003", "text": "Alert",
         "attachments": [{"title": "Lamp out", "text": "Since noon", "fallback": "Lamp out"}]},
        {"username": "bot", "ts": "1714730004", "attachments": [{"fallback": "Lamp on again"}]},
        {"user": "U1", "ts": "1714730005", "text": "See the page",
         "attachments": [{"from_url": "https://example.org", "text": "Text of the page"}]},
        {"user": "U1", "ts": "1714730006", "text": "", "blocks": [{"elements": listed}]},
        {"username": "bot", "ts": "1714730007", "text": "", "attachments": [alert]},
    ]  # fmt: skip
    write(tmp_path, {**EXPORT, "light/2024-05-03.json": messages})
    documents, _ = read(tmp_path)
    text = documents.set_index("source").loc["light/2024-05-03.json"]["text"]
    said = [block.split(":\n", 1)[1] for block in text.split("\n\n")]
    assert said == [
        "The lamp",
        "By @Mira Vale\nField",
        "Alert\nLamp out\nSince noon",
        "Lamp on again",
        "See the page",
        "@Mira Vale see https://example.org:bulb:\none\ntwo\nAcme\nMay\nKell\nMoor",
        "State\ndark",
    ]


def test_blocks_within_blocks_without_end_cost_no_crash(tmp_path: Path):
    block: dict[str, Any] = {"text": "deep"}
    for _ in range(200):
        block = {"elements": [block]}
    messages = [{"user": "U1", "ts": "1714730001", "text": "", "blocks": [block]}]
    write(tmp_path, {**EXPORT, "light/2024-05-03.json": messages})
    documents, _ = read(tmp_path)
    assert "light/2024-05-04.json" in set(documents["source"])
