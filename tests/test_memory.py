"""What tables held goes back to the system when they are done with."""

import os
import subprocess
import sys

import pytest

PRINT = "import pipeline, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize(
    ("chosen", "used"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_memory_is_the_systems_unless_somebody_chose_otherwise(chosen: dict[str, str], used: str):
    others = {
        name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"
    }
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        env=others | chosen,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == used
