"""Write the files of examples/nightly with the real paths of a project and of this graphmill."""

import json
import os
import pwd
import re
import shlex
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pipeline.settings.schema import Settings

PROJECT, COMMAND = "/srv/knowledge", "/opt/graphmill/bin/graphmill"
SCRIPT = f"{PROJECT}/nightly/nightly.sh"
SCRIPT_NAME = Path(SCRIPT).name
USER = "User=graphmill"
"""The paths and the user that the examples name."""
_MAX_COST = re.compile(r"""--max-cost(?P<comma>,?) (?P<quote>"?)5(?P=quote)""")
"""The limit of the examples, as an argument of a shell and in a list of YAML."""
MAX_TOKENS = 20_000_000
"""The limit in its place. At the price of the shipped model this is about what 5 dollars buy."""


def find_unpriced(settings: "Settings") -> str:
    """Return the key of a model whose calls have no known price, or "" if all have one.

    A run with --max-cost is refused if it asks such a model. Models in this process are free.
    """
    models = settings.models
    for name, chat in models.chat.items():
        if chat.known_price is None:
            return f"models.chat.{name}"
    for name, embedding in models.embedding.items():
        if embedding.kind not in ("builtin", "local") and embedding.price is None:
            return f"models.embedding.{name}"
    return ""


def as_schedule(name: str, text: str, project: Path, unpriced: str = "") -> str:
    """Return the text of an example with the project's folder, this command and this user.

    ``name`` is that of the file, which says how a path is quoted. ``unpriced`` is the key of a
    model without a price: then tokens are limited instead of costs. Raises UsageError if the
    command graphmill is not installed.
    """
    if unpriced and _MAX_COST.search(text) and name != SCRIPT_NAME:
        text = _MAX_COST.sub(rf"--max-tokens\g<comma> \g<quote>{MAX_TOKENS}\g<quote>", text)
        reason = (
            f"# A limit of tokens, since {unpriced} has no price in settings.yaml and --max-cost is"
            " refused without one.\n"
        )
        text = reason + text
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
