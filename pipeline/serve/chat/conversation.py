"""Read a chat client's conversation: the question, the turns before it, and tasks that need no
question."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import UsageError, counted
from pipeline.serve.chat.bodies import Message
from pipeline.serve.chat.rendering import without_sources

SYSTEM_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "function"})
TASK, HISTORY, END_OF_HISTORY, USER = "### Task:", "<chat_history>", "</chat_history>", "USER: "
"""Signs in the prompts with which Open WebUI asks for titles, tags and the like."""
EMPTY_REPLIES = {"follow_ups": [], "tags": [], "queries": [], "prompt": "", "text": ""}
"""Field of the JSON that such a prompt wants -> the value that says nothing."""
LONGEST_TITLE = 60


@dataclass(frozen=True)
class Conversation:
    """A question with the turns before it, as ``conversation_history`` takes them.

    ``notes`` say which parts of the request were left out.
    """

    question: str
    history: Sequence[dict[str, str]]
    notes: tuple[str, ...] = ()


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the conversation. Raises UsageError if the last turn is not a user's.

    System turns stay in the history, where the rights of the caller decide about them. They may
    stand behind the question.
    """
    spoken = [one for one in messages if one.role not in SYSTEM_ROLES | TOOL_ROLES]
    if not spoken or spoken[-1].role != "user":
        raise UsageError("messages: the last turn is no user's; end with the question")
    question = spoken[-1]
    history: list[dict[str, str]] = []
    tool_turns = 0
    for message in messages:
        if message is question:
            continue
        if message.role in TOOL_ROLES:
            tool_turns += 1
            continue
        text = without_sources(message.text) if message.role == "assistant" else message.text
        if text.strip():
            role = "system" if message.role in SYSTEM_ROLES else message.role
            history.append({"role": role, "content": text})
    notes: list[str] = []
    if tool_turns:
        notes.append(f"{counted(tool_turns, 'turn')} of tools left out of the conversation")
    parts = sum(message.parts_without_text for message in messages)
    if parts:
        notes.append(f"{counted(parts, 'part')} of the messages left out: only text is read")
    return Conversation(question.text, history, tuple(notes))


def reply_to_task(conversation: Conversation) -> str | None:
    """Return the reply to a front end's request for a title, tags or the like; None for a question.

    Such a request searches nothing and asks no model: with the prompt of a caller the server would
    be a free chat model. The title is the beginning of the first question.
    """
    prompt = conversation.question
    instructions, begins, shown = prompt.partition(HISTORY)
    is_alone = all(turn["role"] == "system" for turn in conversation.history)
    is_task = prompt.lstrip().startswith(TASK) and begins and END_OF_HISTORY in shown
    if not is_task or not is_alone:
        return None
    for field, empty in EMPTY_REPLIES.items():
        if f'"{field}"' in instructions:
            return json.dumps({field: empty})
    title = _first_question(shown)
    if '"title"' in instructions:
        return json.dumps({"title": title}, ensure_ascii=False)
    # A newer prompt wants the title alone.
    return title


def _first_question(shown: str) -> str:
    """Return the beginning of the first question in a history that a task shows."""
    for line in shown.partition(END_OF_HISTORY)[0].splitlines():
        if line.startswith(USER):
            question = " ".join(line.removeprefix(USER).split())
            if len(question) <= LONGEST_TITLE:
                return question
            whole_words = question[:LONGEST_TITLE].rpartition(" ")[0]
            return f"{whole_words or question[:LONGEST_TITLE]} …"
    return ""
