"""The chat requests of a run sent once more, in a loop, with the client alone: what the calls
themselves cost."""

import json
import sys
import time
from itertools import islice
from pathlib import Path

from openai import OpenAI

MOST_CALLS = 2_000
"""A call costs the same however many there are."""


def main() -> None:
    client = OpenAI(max_retries=0)
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        requests = [json.loads(line) for line in islice(file, MOST_CALLS)]
    for request in requests[:10]:
        client.chat.completions.create(**request)
    started = time.process_time()
    for request in requests:
        client.chat.completions.create(**request)
    seconds = time.process_time() - started
    print(
        json.dumps(
            {"calls": len(requests), "cpu_ms_a_call": 1000 * seconds / max(1, len(requests))}
        )
    )


if __name__ == "__main__":
    main()
