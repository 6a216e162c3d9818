"""Draw what is around an entity, or a question's evidence: python examples/picture.py "Tessing"
[FOLDER] > it.svg"""

import sys

from graphmill import Project

about, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "."
with Project.open(folder) as project:
    print(project.picture(about).svg)
