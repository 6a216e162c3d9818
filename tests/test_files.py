"""Files that a project keeps, and files that it works with."""

import os
from pathlib import Path

from pipeline.files import scratch_file


def test_a_scratch_file_leaves_no_name_behind_and_needs_no_folder_to_write_to(tmp_path: Path):
    with scratch_file(tmp_path) as file:
        file.write(b"vectors")
        assert os.fstat(file.fileno()).st_dev == tmp_path.stat().st_dev
        assert list(tmp_path.iterdir()) == []
    no_folder = tmp_path / "file"
    no_folder.touch()
    with scratch_file(no_folder) as file:
        file.write(b"vectors")
