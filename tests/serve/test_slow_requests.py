"""Requests that do not come, or come by drops: their connections are cut, those of others are
not."""

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from pipeline.serve.ui.assets import read_assets
from tests.projects import ProjectFolder
from tests.serve.serving import QUESTION, Serving, serving, wait_until

PATIENCE = 0.5
MANY = 80
"""Answers of one file, together 15 MB."""
START = (
    b"POST /query/data HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k\r\nContent-Type:"
    b" application/json\r\n"
)
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(folder: ProjectFolder) -> Iterator[Serving]:
    with (
        folder.open("serve.api_key=k", f"serve.request_timeout={PATIENCE}") as project,
        serving(project) as served,
    ):
        yield served


@pytest.fixture
def line(impatient: Serving) -> Iterator[socket.socket]:
    address = urlsplit(impatient.url)
    assert address.hostname
    assert address.port
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        yield connection


def until_cut(line: socket.socket) -> bytes:
    """What comes before the connection ends; a TimeoutError where it does not end."""
    told = b""
    try:
        while piece := line.recv(65_536):
            told += piece
    except ConnectionResetError:
        pass
    return told


@pytest.mark.parametrize(
    "sent", [b"", b"GET", b"GET /health HTTP/1.1\r\nHost: localhost\r\n", START]
)
def test_headers_that_do_not_come(line: socket.socket, sent: bytes):
    line.sendall(sent)
    assert until_cut(line) == b""


@pytest.mark.parametrize("before", [b"", HEALTH])
def test_headers_that_come_by_drops(line: socket.socket, before: bytes):
    line.sendall(before)
    if before:
        assert line.recv(65_536).startswith(b"HTTP/1.1 200")
    drops = threading.Thread(target=drip, args=[line, b"GET /health HTTP/1.1\r\nX: " + b"x" * 400])
    drops.start()
    assert until_cut(line).count(b"HTTP/1.1") <= 1  # the rest of the first answer
    drops.join()


def drip(line: socket.socket, sent: bytes) -> None:
    pause = threading.Event()
    try:
        for byte in sent:
            line.sendall(bytes([byte]))
            pause.wait(PATIENCE / 10)
    except OSError:
        return


@pytest.mark.parametrize("body", [b"", b'{"query": "'])
@pytest.mark.parametrize(
    "length", [b"Content-Length: 400\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"]
)
def test_a_body_that_does_not_come(line: socket.socket, length: bytes, body: bytes):
    sent = body if b"Length" in length or not body else b"%x\r\n%s\r\n" % (len(body), body)
    line.sendall(START + length + sent)
    told = until_cut(line)
    assert told.startswith(b"HTTP/1.1 408")
    assert b"slow_request" in told


def test_a_body_that_nobody_reads(line: socket.socket):
    """Refused for want of a key; what goes on coming does not keep the connection."""
    line.sendall(START.replace(b"X-Api-Key: k", b"X: y") + b"Content-Length: 400\r\n\r\n")
    drops = threading.Thread(target=drip, args=[line, b"x" * 399])
    drops.start()
    assert until_cut(line).startswith(b"HTTP/1.1 401")
    drops.join()


def test_a_request_that_comes_in_pieces_is_answered(line: socket.socket):
    body = b'{"query": "%s", "mode": "naive"}' % QUESTION.encode()
    whole = START + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for place in range(0, len(whole), 60):
        line.sendall(whole[place : place + 60])
    assert until_cut(line).startswith(b"HTTP/1.1 200")


def ask_for_much(served: Serving, line: socket.socket) -> int:
    """Ask many times for one file without reading anything; return the bytes of all answers.

    They are more than the buffers of the operating system hold.
    """
    with socket.create_connection(line.getpeername(), timeout=30) as other:
        assets = read_assets()
        file = f"GET /{assets.folder}vendor/sigma.min.js HTTP/1.1\r\nHost: localhost\r\n"
        other.sendall(f"{file}Connection: close\r\n\r\n".encode())
        length = len(until_cut(other))
    line.sendall(f"{file}\r\n".encode() * MANY)
    return MANY * (length - len("Connection: close\r\n"))


def test_a_connection_whose_answers_nobody_reads_is_cut(impatient: Serving, line: socket.socket):
    ask_for_much(impatient, line)
    wait_until(lambda: not impatient.server.server_state.connections)


def test_a_client_that_reads_slowly_gets_all_of_its_answers(
    impatient: Serving, line: socket.socket
):
    expected, told, pause = ask_for_much(impatient, line), 0, threading.Event()
    while told < 0.95 * expected:
        piece = line.recv(300_000)
        assert piece
        told += len(piece)
        pause.wait(PATIENCE / 10)
