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


def test_ctrl_c_while_it_imports_is_a_line_and_130():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AS_IT_IMPORTS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "graphmill: interrupted before it began\n")
