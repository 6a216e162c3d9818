"""Ask a few texts of a program: a project that is gone at the end, with its databases.

python examples/texts.py
"""

import pandas as pd
from graphmill import Project

with Project.temporary() as project:
    project.add("The Brack Institute was founded by Idra Senn in 1840.")
    rows = {"id": ["quay"], "text": ["Osric Hale dredged the Tollen Quay in 1901."], "year": [1901]}
    project.add(pd.DataFrame(rows))
    project.run()
    answer = project.query("Who dredged the Tollen Quay?", mode="naive", where={"year": 1901})
    print(answer.text, [reference.source for reference in answer.references])
    print(project.remove("quay"), "removed:", list(project.changed_documents()["change"]))
