"""Ask a question over the loaded stores: python examples/ask.py "Who designed the Skarrow Light?"
[FOLDER]"""

import sys

from graphmill import Project

question, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "."
with Project.open(folder) as project:
    answer = project.query(question)
    print(answer.text)
    for reference in answer.references:
        print(f"[{reference.id}] {reference.title} ({reference.source})")
