"""The command itself."""

import subprocess
import sys

INTERRUPTED_AS_IT_IMPORTS = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "pipeline.cli.build":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from pipeline.__main__ import main
main()
"""

LOOKING_FOR_GARBAGE = """
import atexit, gc, sys
from pipeline.__main__ import main

looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
atexit.register(lambda: print(len(looks), gc.get_freeze_count() > 0, file=sys.stderr))
sys.argv = ["graphmill", "--help"]
main()
"""


def test_ctrl_c_while_it_imports_is_a_line_and_130():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AS_IT_IMPORTS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "graphmill: interrupted before it began\n")


def test_a_short_command_looks_for_no_garbage():
    done = subprocess.run(
        [sys.executable, "-c", LOOKING_FOR_GARBAGE], capture_output=True, text=True, check=True
    )
    assert done.stderr == "0 True\n"  # looks, and whether any is left for the end to look at
