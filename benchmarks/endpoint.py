"""The tests' endpoint as a process of its own, so that its CPU is not counted. Ends when its input
is closed."""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.openai_server import openai_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--requests-file", type=Path)
    options = parser.parse_args()
    with openai_server(delay=options.delay) as server:
        print(json.dumps(server.env), flush=True)
        sys.stdin.read()
        if options.requests_file:
            chats = [
                json.dumps(request.body) for request in server.requests if request.kind == "chat"
            ]
            options.requests_file.write_text("\n".join(chats), encoding="utf-8")


if __name__ == "__main__":
    main()
