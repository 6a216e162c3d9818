import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.errors import DataError, SettingsError
from pipeline.text.ids import document_id, entity_id, relationship_id, text_unit_id
from pipeline.text.tokens import tokenizer
from pipeline.verbs import read_graphrag
from pipeline.verbs.read_graphrag import GraphragParams, folder_digest
from tests.verbs.graphrag_folders import DOCUMENT, TEXT, VERSIONS, Tables, version_3, write

NAMES = (
    "documents", "text_units", "mentions", "entities", "relationships", "communities", "reports",
    "claims", "rejects",
)  # fmt: skip
DATASETS = "GRAPHMILL_DATASETS"
DOC = document_id("d1")
UNITS = [text_unit_id(DOC, TEXT, 0), text_unit_id(DOC, "Otto Holm kept the Lamp.", 0)]


def read(folder: Path) -> dict[str, pd.DataFrame]:
    tables = read_graphrag(GraphragParams(path=str(folder)), tokenizer("o200k_base"))
    return dict(zip(NAMES, tables, strict=True))


def reasons(found: dict[str, pd.DataFrame]) -> list[tuple[str, str, str]]:
    return list(found["rejects"][["row_id", "kind", "reason"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("below", ["", "output"])
def test_tables_of_every_version_give_the_same_graph(version: str, below: str, tmp_path: Path):
    write(tmp_path / below, VERSIONS[version]())
    found = read(tmp_path)
    (document,) = found["documents"].to_dict("records")
    assert (document["id"], document["title"], document["source"]) == (DOC, "lamp.txt", "lamp.txt")
    assert document["metadata"] == '{"creation_date": "2026-01-09", "owner": "Ada", "year": 1871}'
    units = found["text_units"]
    assert units[["id", "document_id", "order"]].values.tolist() == [
        [UNITS[0], DOC, 0],
        [UNITS[1], DOC, 1],
    ]
    assert [
        DOCUMENT[start:end] for start, end in zip(units["start"], units["end"], strict=True)
    ] == [
        "Ada Holm built the Lamp.",
        "Otto Holm kept the Lamp.",
    ]
    entities = found["entities"].set_index("name")
    assert sorted(entities["id"]) == sorted(map(entity_id, ["Ada Holm", "Otto Holm", "Lamp"]))
    assert entities["type"].to_dict() == {
        "ADA HOLM": "PERSON",
        "OTTO HOLM": "PERSON",
        "LAMP": "UNKNOWN",
    }
    assert (list(entities.loc["LAMP", "text_unit_ids"]), entities.loc["LAMP", "frequency"]) == (
        UNITS,
        2,
    )
    built = found["relationships"].set_index("source").loc["ADA HOLM"]
    assert built["id"] == relationship_id(entity_id("Ada Holm"), entity_id("Lamp"))
    assert (built["target"], built["description"], built["weight"]) == ("LAMP", "Ada built it", 9.0)
    assert list(built["text_unit_ids"]) == UNITS[:1]
    assert len(found["mentions"]) == 4
    assert found["rejects"].empty


def changed(change: Callable[[Tables], None], folder: Path) -> dict[str, pd.DataFrame]:
    tables = version_3()
    change(tables)
    return read(write(folder, tables))


def test_an_end_that_is_no_entity_becomes_one(tmp_path: Path):
    def change(tables: Tables) -> None:
        first = tables["relationships"][0]
        tables["relationships"] += [
            first | {"target": "THE MOON"},
            first | {"target": "'Ada Holm'"},
        ]

    found = changed(change, tmp_path)
    assert reasons(found) == [("relationships[3]", "record", "self_loop")]
    moon = found["entities"].set_index("id").loc[entity_id("The Moon")]
    assert (moon["type"], moon["description"]) == ("UNKNOWN", "")
    assert list(moon["text_unit_ids"]) == UNITS[:1]
    assert len(found["relationships"]) == 3


def test_communities_reports_and_claims_are_read(tmp_path: Path):
    found = read(write(tmp_path, version_3()))
    whole, part = found["communities"].sort_values("level").to_dict("records")
    assert part["parent"] == whole["id"]
    assert whole["parent"] == ""
    assert sorted(part["entity_ids"]) == sorted(map(entity_id, ["Ada Holm", "Lamp"]))
    reports = found["reports"].set_index("id")
    assert reports["title"].to_dict() == {whole["id"]: "The Lamp 0", part["id"]: "The Lamp 1"}
    assert reports.loc[part["id"], ["rating", "weight", "size"]].tolist() == [7.5, 1, 2]
    assert list(reports.loc[part["id"], "text_unit_ids"]) == UNITS[:1]
    (claim,) = found["claims"].to_dict("records")
    assert (claim["subject_id"], claim["object"]) == (entity_id("Ada Holm"), "LAMP")
    assert (claim["start_date"], claim["end_date"]) == ("1871-01-01", "")
    assert claim["text_unit_id"] == UNITS[0]


def test_a_community_and_its_report_stay_without_an_unknown_text_unit(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["communities"][1]["text_unit_ids"] = ["u1", "u9"]

    found = changed(change, tmp_path)
    assert reasons(found) == [("communities[1]", "record", "dangling")]
    part = found["communities"].set_index("level").loc[1]
    assert list(part["text_unit_ids"]) == UNITS[:1]
    assert part["id"] in set(found["reports"]["id"])


def test_a_parent_is_found_as_a_float_and_as_a_second_one_with_the_same_members(tmp_path: Path):
    def change(tables: Tables) -> None:
        whole, part = tables["communities"]
        second = whole | {"community": 7}
        tables["communities"] = [
            whole | {"parent": None}, part | {"parent": 0.0}, second | {"parent": None},
            part | {"community": 8, "parent": 7.0, "entity_ids": ["e2"]},
        ]  # fmt: skip

    found = changed(change, tmp_path)
    whole, *parts = found["communities"].sort_values("level").to_dict("records")
    assert [part["parent"] for part in parts] == [whole["id"], whole["id"]]


def test_what_is_not_taken_is_named(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["communities"] += [
            tables["communities"][1] | {"community": 2, "entity_ids": ["e9"]},
            tables["communities"][1] | {"community": 3},
            tables["communities"][1] | {"community": 4, "level": None},
        ]
        first = tables["community_reports"][0]
        tables["community_reports"] += [
            first | {"community": 2}, first, tables["community_reports"][1] | {"summary": ""},
        ]  # fmt: skip
        claim = tables["covariates"][0]
        tables["covariates"] += [
            claim | {"subject_id": " "}, claim | {"text_unit_id": "u9"}, claim,
        ]  # fmt: skip
        tables["embeddings.text_unit_text"] = [{"id": "u1"}, {"id": "u2"}]

    (tmp_path / "stats.json").write_text("{}", encoding="utf-8")
    found = changed(change, tmp_path)
    assert reasons(found) == [
        ("communities[2]", "row", "dangling"),
        ("communities[3]", "row", "duplicate_id"),
        ("communities[4]", "row", "incomplete"),
        ("community_reports[2]", "row", "dangling"),
        ("community_reports[3]", "row", "duplicate_id"),
        ("community_reports[4]", "row", "incomplete"),
        ("covariates[1]", "row", "incomplete"),
        ("covariates[2]", "row", "dangling"),
        ("covariates[3]", "row", "duplicate_row"),
        ("embeddings.text_unit_text.parquet", "row", "not_imported"),
        ("stats.json", "row", "not_imported"),
    ]
    assert "2 rows, not read" in found["rejects"]["message"].tolist()[-2]


def test_communities_without_their_entities_are_not_read(tmp_path: Path):
    """Check a table of GraphRAG 0.3, which does not say who is in a community."""

    def change(tables: Tables) -> None:
        del tables["communities"], tables["community_reports"]
        tables["create_final_communities"] = [{"id": "0", "title": "Community 0", "level": 0}]

    found = changed(change, tmp_path)
    assert reasons(found) == [("create_final_communities.parquet", "row", "not_imported")]


@pytest.mark.parametrize(("table", "column"), [
    ("communities", "entity_ids"), ("community_reports", "full_content"),
    ("covariates", "subject_id"),
])  # fmt: skip
def test_an_optional_file_that_lacks_a_column_is_refused_by_name(
    table: str, column: str, tmp_path: Path
):
    def change(tables: Tables) -> None:
        for row in tables[table]:
            del row[column]

    with pytest.raises(DataError, match=rf"{table}\.parquet: no column {column}"):
        changed(change, tmp_path)


def test_a_document_that_lacks_text_units_is_told(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["documents"] += [tables["documents"][0] | {"id": "d2", "text_unit_ids": []}]
        tables["documents"] += [tables["documents"][0] | {"id": "d3", "text_unit_ids": ["u9"]}]
        tables["documents"] += [
            tables["documents"][0] | {"id": "d4", "text_unit_ids": [], "text": ""}
        ]

    found = changed(change, tmp_path)
    assert sorted(reasons(found)) == [
        ("documents[1]", "record", "dangling"),
        ("documents[2]", "record", "dangling"),
    ]


def test_replies_beside_the_tables_are_told(tmp_path: Path):
    folder = write(tmp_path / "output", version_3())
    before = folder_digest(GraphragParams(path=str(folder)))
    assert ("cache/extract_graph", "row", "not_imported") not in reasons(read(folder))
    replies = tmp_path / "cache" / "extract_graph"
    replies.mkdir(parents=True)
    (replies / "one_v4").touch()
    for path in (folder, tmp_path):
        assert ("cache/extract_graph", "row", "not_imported") in reasons(read(path))
        assert folder_digest(GraphragParams(path=str(path))) != before


def test_tables_of_an_earlier_run_are_not_mixed_with_newer_ones(tmp_path: Path):
    tables = version_3()
    del tables["covariates"]
    del tables["community_reports"]
    folder = write(tmp_path / "output", tables)
    older = version_3()
    write(folder, {"create_final_covariates": older["covariates"]})
    write(tmp_path, {name: older[name] for name in ("community_reports", "entities")})
    found = read(tmp_path)
    assert found["reports"].empty
    assert found["claims"].empty
    for name in ("create_final_covariates", "../community_reports", "../entities"):
        assert (f"{name}.parquet", "row", "not_imported") in reasons(found)


def test_incomplete_rows_are_rejects(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["documents"] += [
            tables["documents"][0] | {"id": None},
            tables["documents"][0] | {"text": "again"},
        ]
        tables["text_units"] += [
            tables["text_units"][0] | {"id": "u3", "document_id": "d9"},
            tables["text_units"][0] | {"id": "u4", "text": None},
        ]
        tables["entities"] += [tables["entities"][0] | {"title": " "}]
        tables["entities"][0]["text_unit_ids"] = ["u1", "u3"]

    found = changed(change, tmp_path)
    assert sorted(reasons(found)) == [
        ("documents[1]", "row", "incomplete"),
        ("documents[2]", "row", "duplicate_id"),
        ("entities[0]", "record", "dangling"),
        ("entities[3]", "row", "incomplete"),
        ("text_units[2]", "row", "dangling"),
        ("text_units[3]", "row", "incomplete"),
    ]
    assert [len(found[name]) for name in NAMES[:5]] == [1, 2, 4, 3, 2]


def test_a_row_that_is_there_twice_counts_once(tmp_path: Path):
    def change(tables: Tables) -> None:
        first = tables["entities"][0]
        tables["entities"] += [first, first | {"title": "IDA VALE"}]
        tables["relationships"] += [tables["relationships"][0]]

    found = changed(change, tmp_path)
    assert reasons(found) == [
        ("entities[3]", "row", "duplicate_row"), ("entities[4]", "record", "duplicate_id"),
        ("relationships[2]", "row", "duplicate_row"),
    ]  # fmt: skip
    members = {id for ids in found["communities"]["entity_ids"] for id in ids}
    assert entity_id("ADA HOLM") in members
    assert entity_id("IDA VALE") not in members
    assert sorted(found["relationships"]["weight"]) == [2.0, 9.0]
    assert len(found["communities"]) == 2


@pytest.mark.parametrize(
    ("table", "column", "cell"),
    [("documents", "text", b"A text."), ("text_units", "text", ["A text."]),
     ("entities", "title", {"name": "A"})],
)  # fmt: skip
def test_a_column_without_texts_is_refused_by_name(
    table: str, column: str, cell: object, tmp_path: Path
):
    def change(tables: Tables) -> None:
        for each in tables[table]:
            each[column] = cell

    with pytest.raises(DataError, match=rf"{table}\.parquet: column {column} holds .* in place"):
        changed(change, tmp_path)


def test_names_with_one_key_are_one_entity(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["entities"].append(
            tables["entities"][0]
            | {
                "title": "“Ada-Holm”",
                "type": "KEEPER",
                "frequency": 5,
                "description": "too",
                "text_unit_ids": ["u2"],
            }
        )
        tables["relationships"].append(
            tables["relationships"][0]
            | {"source": "ada holm", "weight": None, "text_unit_ids": ["u2"]}
        )

    found = changed(change, tmp_path)
    ada = found["entities"].set_index("id").loc[entity_id("ADA HOLM")]
    assert (ada["name"], ada["type"], ada["description"]) == ("ADA HOLM", "KEEPER", "built it too")
    assert list(ada["types"]) == [{"type": "KEEPER", "count": 5}, {"type": "PERSON", "count": 1}]
    built = found["relationships"].set_index("source").loc["ADA HOLM"]
    assert (built["weight"], list(built["text_unit_ids"])) == (10.0, UNITS)
    assert found["rejects"].empty


def test_equal_texts_of_two_documents_have_one_id_there(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["documents"].append(tables["documents"][0] | {"id": "d2"})
        tables["text_units"].append(tables["text_units"][0] | {"document_id": "d2"})

    found = changed(change, tmp_path)
    both = [UNITS[0], text_unit_id(document_id("d2"), TEXT, 0)]
    ada = found["entities"].set_index("id").loc[entity_id("ADA HOLM")]
    assert list(ada["text_unit_ids"]) == both


def test_a_text_unit_that_is_not_found_in_its_document_has_no_position(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["text_units"][0]["text"] = "Nobody wrote this."
        tables["text_units"][1]["text"] = "\ufffdkept the Lamp.\ufffd"
        tables["documents"][0]["text"] = DOCUMENT.replace("\n", "\r\n") + "\x00"

    units = changed(change, tmp_path)["text_units"]
    spans = units.set_index("text")[["start", "end"]]
    assert spans.loc["Nobody wrote this."].tolist() == [0, 0]
    start, end = spans.loc["\ufffdkept the Lamp.\ufffd"]
    assert DOCUMENT[start:end] == "kept the Lamp."


def test_the_digest_changes_with_the_content_only(tmp_path: Path):
    one, two = write(tmp_path / "one", version_3()), write(tmp_path / "two", version_3())
    digests = [folder_digest(GraphragParams(path=str(folder))) for folder in (one, two)]
    assert digests[0] == digests[1]
    tables = version_3()
    tables["entities"][0]["description"] = "edited"
    write(two, tables)
    assert folder_digest(GraphragParams(path=str(two))) != digests[0]


def test_a_folder_without_tables_raises_an_error(tmp_path: Path):
    for call in (read, lambda folder: folder_digest(GraphragParams(path=str(folder)))):
        with pytest.raises(
            SettingsError,
            match="gone: no such folder; name one with the tables of a GraphRAG index",
        ):
            call(tmp_path / "gone")
        tables = version_3()
        del tables["entities"]
        with pytest.raises(
            SettingsError, match=r"no entities.parquet or create_final_entities.parquet; name the"
        ):
            call(write(tmp_path / "half", tables))


def test_a_damaged_file_raises_an_error(tmp_path: Path):
    folder = write(tmp_path, version_3())
    path = folder / "entities.parquet"
    whole = path.read_bytes()
    for content in (
        b"",
        b"no Parquet at all",
        whole[: len(whole) // 2],
        whole[:-20] + b"\x00" * 20,
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"entities\.parquet: not readable as Parquet"):
            read(folder)
    write(folder, {"entities": [{"id": "e1", "label": "A"}]})
    with pytest.raises(
        DataError, match=r"entities.parquet: no column title or name; is it a table of GraphRAG"
    ):
        read(folder)


def test_cells_of_unexpected_types_are_read(tmp_path: Path):
    def change(tables: Tables) -> None:
        tables["documents"] = [tables["documents"][0] | {"id": 7, "raw_data": "a text"}]
        for row in tables["text_units"]:
            row |= {"document_id": 7}
        for row in tables["relationships"]:
            row |= {"weight": "heavy", "description": None}

    found = changed(change, tmp_path)
    assert found["documents"]["id"].tolist() == [document_id("7")]
    assert '"metadata": "a text"' in found["documents"]["metadata"][0]
    assert found["relationships"]["weight"].tolist() == [1.0, 1.0]
    assert found["rejects"].empty


@pytest.mark.parametrize(("name", "entities", "relationships", "units"), [
    ("christmas_carol", 529, 978, 42), ("operation_dulce", 39, 107, 5),
])  # fmt: skip
def test_recorded_outputs_of_graphrag_are_read_whole(
    name: str, entities: int, relationships: int, units: int
):
    folder = Path(os.environ.get(DATASETS, "")) / "msgraphrag_outputs" / name
    if DATASETS not in os.environ or not folder.is_dir():
        pytest.skip(f"no recorded outputs of GraphRAG; set {DATASETS} to the folder of datasets")
    found = read(folder)
    assert len(found["text_units"]) == units
    described = found["entities"]["description"] != ""
    assert found["entities"]["name"][described].nunique() == entities
    assert len(found["relationships"]) == relationships
    paid = [pq.read_metadata(folder / f"{table}.parquet").num_rows
            for table in ("communities", "community_reports", "covariates")]  # fmt: skip
    taken = [len(found[name]) for name in ("communities", "reports", "claims")]
    assert sum(taken) + len(found["rejects"]) == sum(paid)
    assert set(found["rejects"]["reason"]) <= {"duplicate_row"}
    assert (found["text_units"]["end"] > found["text_units"]["start"]).all()
