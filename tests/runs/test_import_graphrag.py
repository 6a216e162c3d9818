"""What an import of GraphRAG has not taken is told by table or folder, and by reason."""

import pandas as pd

from pipeline.runs.import_graphrag import note_left_out

READ = "read_graphrag_cache"


def test_rows_are_counted_by_their_place():
    places = [
        (READ, "covariates[3]", "dangling"),
        (READ, "covariates[4]", "dangling"),
        (READ, "cache/extract_graph/0a_v4", "empty"),
        (READ, "lamp[1].txt", "unfinished"),
        (READ, "lancedb", "not_imported"),
        ("keep_reports", "community-1", "changed"),
        ("merge_graphs", "unit-1", "self_loop"),
    ]
    rejects = pd.DataFrame(places, columns=["step", "row_id", "reason"])
    notes = note_left_out(rejects.assign(message=[f"message of {place[1]}" for place in places]))
    assert notes == [
        "not taken: message of lancedb",
        "not taken of cache/extract_graph: 1 row (empty), as message of cache/extract_graph/0a_v4",
        "not taken of covariates: 2 rows (dangling), as message of covariates[3]",
        "not taken of documents: 1 row (unfinished), as message of lamp[1].txt",
        "not taken of keep_reports: 1 row (changed), as message of community-1",
    ]
