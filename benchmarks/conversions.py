"""Measure the cost of a folder of PDF files.

    python benchmarks/conversions.py --files 1000 --pages 20

The runs are the first one, one without a change, one with a new file, and the plan before it. The
files are made by the benchmark: pages of about 130 words of prose, no two alike. Each line is a
process of its own; CPU is that of the command and of the processes in which it converts files.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fpdf import FPDF
from harness import ROOT, print_table

from pipeline.settings.init import init_project

WORDS_A_PAGE = 130
NAMES = (
    "Mira Vale",
    "Anselm Torr",
    "Idra Senn",
    "Quill Point",
    "the Brack Institute",
    "the Tollen Observatory",
)


def write_pdf(path: Path, pages: int, seed: int) -> None:
    draw = random.Random(seed)
    pdf = FPDF()
    pdf.set_font("helvetica", size=11)
    for page in range(pages):
        pdf.add_page()
        words = [f"word{draw.randrange(5000)}" for _ in range(WORDS_A_PAGE)]
        for place in range(0, WORDS_A_PAGE, 13):
            words[place] = f"{draw.choice(NAMES)} saw"
            words[place + 12] += "."
        pdf.multi_cell(0, 6, f"Report {seed}, page {page + 1}\n\n{' '.join(words)}")
    path.write_bytes(bytes(pdf.output()))


def measured(root: Path, *arguments: str) -> dict[str, float | str]:
    """Run a command and return its figures; ``load s`` is the time of the step that reads files."""
    started = time.perf_counter()
    line = [sys.executable, "-m", "pipeline", "-C", str(root), *arguments, "--json"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(line, cwd=ROOT, stdout=said, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        said.seek(0)
        report = json.load(said)
    if process.returncode:
        raise SystemExit(f"{' '.join(line)}: exit code {process.returncode}: {report}")
    loading = report["steps"][0]
    return {
        "CPU s": round(usage.ru_utime + usage.ru_stime, 1), "wall s": round(seconds, 1),
        "load s": loading["seconds"],
        "largest MB": usage.ru_maxrss / 1000, "files": str(loading.get("conversions", "")),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        init_project(root)
        folder = root / "data" / "input"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(options.files):
            write_pdf(folder / f"{number:05}.pdf", options.pages, number)
        rows = [{"night": "first", **measured(root, "index", "fast")}]
        rows.append({"night": "nothing new", **measured(root, "index", "fast")})
        write_pdf(folder / "new.pdf", options.pages, options.files)
        rows.append({"night": "plan, one new file", **measured(root, "plan", "fast")})
        rows.append({"night": "one new file", **measured(root, "index", "fast")})
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
