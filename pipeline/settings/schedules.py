"""Write the files of examples/nightly with the real paths of a project and of this graphmill."""

import json
import os
import pwd
import re
import shlex
import shutil
import sysconfig
from pathlib import Path

from pipeline.errors import UsageError

PROJECT, COMMAND = "/srv/knowledge", "/opt/graphmill/bin/graphmill"
SCRIPT = f"{PROJECT}/nightly/nightly.sh"
USER = "User=graphmill"
"""The paths and the user that the examples name."""


def with_real_paths(name: str, text: str, project: Path) -> str:
    """Return the text of an example with the project's folder, this command and this user.

    ``name`` is that of the file, which says how a path is quoted. Raises UsageError if the command
    graphmill is not installed.
    """
    folder = str(project.absolute())
    real = {SCRIPT: f"{folder}/nightly/nightly.sh", PROJECT: folder, COMMAND: find_command()}
    # In one pass, since a real path may begin with one of the examples'. The script's comes first,
    # so that its path is quoted as a whole.
    examples = re.compile("|".join(map(re.escape, real)))
    text = examples.sub(lambda found: _quoted(real[found[0]], name), text)
    return text.replace(USER, f"User={_this_user()}")


def find_command() -> str:
    """Return the path of the command graphmill of this interpreter, or else the one on PATH.

    Raises UsageError if there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "graphmill"
    found = str(beside) if beside.is_file() else shutil.which("graphmill")
    if found is None:
        raise UsageError(
            f"init: no command graphmill in {beside.parent} or on PATH, which a schedule could"
            " start; install graphmill with pip, and repeat this"
        )
    return str(Path(found).absolute())


def _quoted(path: str, name: str) -> str:
    """Return a path as one word of a file."""
    suffix = Path(name).suffix
    if suffix == ".yaml":
        return json.dumps(path, ensure_ascii=False)
    if suffix == ".service":
        escaped = path.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%")
        return f'"{escaped}"' if shlex.quote(path) != path else escaped
    if name == "crontab":
        # cron would read a bare % as the end of the line.
        return shlex.quote(path).replace("%", r"\%")
    return shlex.quote(path)


def _this_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may have a user without a name.
        return str(os.getuid())
