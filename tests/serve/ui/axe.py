"""What axe-core finds wrong with a page for those who use it without a mouse, a screen or good
eyes."""

from functools import cache
from pathlib import Path

from playwright.sync_api import Page

GRAVE = ("serious", "critical")


@cache
def _source() -> str:
    return (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")


def grave_faults(page: Page) -> list[str]:
    """What it calls serious or critical: the rule, and the elements that break it."""
    page.evaluate(
        _source()
    )  # not as a script of the page: its Content-Security-Policy lets none in
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:150]}: {node['failureSummary'][:300]}"
        for rule in found["violations"]
        if rule["impact"] in GRAVE
        for node in rule["nodes"][:5]
    ]
