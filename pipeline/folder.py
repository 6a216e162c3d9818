"""What makes a folder a project."""

from pathlib import Path

from pipeline.errors import SettingsError

SETTINGS = "settings.yaml"


def settings_file(root: Path) -> Path:
    """Raises SettingsError when there is none."""
    path = root / SETTINGS
    if not path.is_file():
        raise SettingsError(f"{path}: no settings here; run 'graphmill init' to make a project, or use -C DIR")
    return path
