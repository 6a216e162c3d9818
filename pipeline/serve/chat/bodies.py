"""The bodies of requests and answers of chat clients, as the OpenAPI document shows them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.query.request import MOST_TURNS
from pipeline.serve.bodies import QUESTION, Body

TEXT = "text"
LONGEST_MODEL = 200


class Part(BaseModel):
    """A part of a turn; parts of any other type than text are left out."""

    type: str = TEXT
    text: str | None = None


class Message(BaseModel):
    """A turn of the conversation. Turns of tools and system turns that are not allowed are left
    out."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n".join(part.text for part in self.content if part.type == TEXT and part.text)

    @property
    def parts_without_text(self) -> int:
        """The number of parts of another type than text."""
        if not isinstance(self.content, list):
            return 0
        return sum(part.type != TEXT for part in self.content)


class StreamOptions(BaseModel):
    include_usage: bool = Field(
        default=False, description="A last chunk tells the tokens that the models took."
    )


class ChatAsked(BaseModel):
    """A conversation whose last turn is the question. Other fields are ignored."""

    model: str = Field(
        default="",
        max_length=LONGEST_MODEL,
        description=(
            "A workspace, or WORKSPACE:MODE, as /v1/models lists them. Left out: the usual ones."
        ),
    )
    messages: list[Message] = Field(
        min_length=1,
        max_length=MOST_TURNS + 1,
        examples=[[{"role": "user", "content": QUESTION}]],
    )
    stream: bool | None = Field(default=False, description="Whether the answer comes in chunks.")
    stream_options: StreamOptions | None = None


class UrlCitation(Body):
    start_index: int = Field(description="In Unicode code points of the content, from 0.")
    end_index: int = Field(description="The first place behind it.")
    title: str
    url: str = Field(description="The passage, below serve.public_url.")


class ChatAnnotation(Body):
    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class ChatReplyShown(Body):
    role: Literal["assistant"] = "assistant"
    content: str = Field(description="The answer, and a list of the passages that it cites.")
    annotations: list[ChatAnnotation] = Field(default=[])


class ChatChoice(Body):
    index: int = 0
    message: ChatReplyShown
    finish_reason: Literal["stop", "length"]


class TokensUsed(Body):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(Body):
    """An answer. ``graphmill`` has what the protocol has no field for, such as ``notes``."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokensUsed
    graphmill: dict[str, Any] = Field(
        default={}, description="mode, reason, notes, question_id and cost, as /query gives them."
    )


class ModelShown(Body):
    id: str = Field(description="A workspace, or WORKSPACE:MODE.")
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "graphmill"


class ModelsShown(Body):
    object: Literal["list"] = "list"
    data: list[ModelShown]


class ChatFault(BaseModel):
    message: str
    type: str = Field(examples=["invalid_request_error"])
    param: str | None = Field(default=None, description="The first field that is wrong.")
    code: str = Field(
        description="The type of the error at other addresses.", examples=["not_allowed"]
    )


class ChatFailed(BaseModel):
    error: ChatFault
