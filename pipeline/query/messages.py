"""What the chat model is sent."""

from pipeline.errors import SettingsError, UsageError
from pipeline.models.base import Message, Tokenizer
from pipeline.prompts import Placeholders, Prompt
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage

CONTEXT = ("context",)
WISHES = ("response_type", "user_prompt")
ANSWERS = {"naive": "answer_chunks", "community": "community_reduce", "drift": "drift_reduce"}
"""Mode -> the prompt of its answer, where it has one of its own."""

Messages = tuple[Message, ...]


def messages(request: QueryRequest, stage: QueryStage, context: str) -> Messages:
    """The answer's prompt with the context in it, the conversation so far, the question. In mode ``bypass`` there is
    no prompt but one that the request brings.

    Raises SettingsError for a prompt of the project with wrong placeholders, UsageError for one of the request.
    """
    prompt = _system_prompt(request, stage, context)
    if prompt and request.general_knowledge:
        prompt = f"{stage.prompt('general_knowledge').render()}\n{prompt}"
    return conversation(request, prompt, request.query)


def instructed(request: QueryRequest, stage: QueryStage, prompt: str, context: str, query: str) -> Messages:
    """The same with a prompt of a call before the answer's, which may name the question as a whole, and a query of its
    own. Raises SettingsError for wrong placeholders."""
    template = stage.prompt(prompt)
    template.check(Placeholders(CONTEXT, ("question",)))
    return conversation(request, template.render(context=context, question=request.query), query)


def conversation(request: QueryRequest, prompt: str, query: str) -> Messages:
    """The prompt, if there is one, the conversation so far, and what is asked now."""
    system = [{"role": "system", "content": prompt}] if prompt else []
    history = [turn.model_dump() for turn in request.conversation_history]
    return (*system, *history, {"role": "user", "content": query})


def count_tokens(messages: Messages, tokenizer: Tokenizer) -> int:
    return sum(tokenizer.count(message["content"]) for message in messages)


def _system_prompt(request: QueryRequest, stage: QueryStage, context: str) -> str:
    if request.mode == "bypass" and not request.system_prompt:
        return ""
    template = stage.prompt("answer_mixed" if request.mixed else ANSWERS.get(request.mode, "answer_graph"))
    values = {"context": context, "response_type": request.response_type, "user_prompt": request.user_prompt}
    if not request.system_prompt:
        template.check(Placeholders(CONTEXT, WISHES))
        return template.render(**values)
    own = Prompt("system_prompt", request.system_prompt, template.values)
    try:
        own.check(Placeholders(optional=CONTEXT + WISHES))
        text = own.render(**values)
    except SettingsError as error:
        raise UsageError(f"query: {error}") from None
    if own.text.replace("{context}", "context").count("$context") > 1:
        raise UsageError("query: system_prompt names $context twice; once is enough")
    return text if "context" in own.fields or not context else f"{text}\n\n{context}"
