import subprocess
import sys

import pytest

PINNED = """
import psutil
from pipeline.engine.memory import release_memory
pieces = [bytes(50_000) for _ in range(4_000)]
last = pieces[-1]
del pieces
before = psutil.Process().memory_info().rss
release_memory()
print(before - psutil.Process().memory_info().rss)
"""
"""Memory that the last step keeps glibc from returning by itself."""


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's")
def test_free_memory_is_returned_though_something_above_it_is_in_use():
    found = subprocess.run(
        [sys.executable, "-c", PINNED], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) > 100_000_000
