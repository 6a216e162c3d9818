"""The API's answers and refusals, over a real server."""

from pipeline.project import Project
from tests.serve.serving import QUESTION, Serving, wait_until


def test_an_answer_is_the_projects(served: Serving, project: Project):
    found = served.ask(mode="local", top_k=5)
    assert found.status_code == 200
    expected = project.query(QUESTION, mode="local", top_k=5).to_json()
    assert found.json() | {"timings_ms": 0} == expected | {"timings_ms": 0}
    data = served.ask("/query/data", mode="naive")
    expected = project.query_data(QUESTION, mode="naive")
    assert data.json() | {"timings_ms": 0} == expected | {"timings_ms": 0}
    assert "answer" not in data.json()


def test_a_stream(served: Serving, project: Project):
    answer = served.ask("/query/stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, *tokens, done = served.events()
    assert (first.name, {token.name for token in tokens}, done.name) == ("sources", {"token"}, "done")
    expected = project.query(QUESTION).to_json()
    assert done.data | {"timings_ms": 0} == expected | {"timings_ms": 0}
    assert first.data["references"] == expected["references"]
    assert "".join(token.data["text"] for token in tokens) == expected["answer"]
    wait_until(lambda: served.api.queries.running == 0)
