import pytest

from pipeline.settings.addresses import fault_of_neo4j, fault_of_postgres, shown_neo4j

SECRET = "S3c"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        (f"postgresql://u:{SECRET}@ret@127.0.0.1/db", "%40"),
        (f"postgresql://u:{SECRET}@a:5432,b:5432/db", "several hosts"),
        (f"postgresql://u:{SECRET}@a,b/db", "several hosts"),
        (f"postgresql+asyncpg://u:{SECRET}@a/db", "driver"),
        (f"mysql://u:{SECRET}@a/db", "PostgreSQL"),
        (f"postgresql://u:{SECRET}@a:port/db", "not a URL"),
        ("nonsense", "not a URL"),
        ("postgresql://u:p%40w@a/db", ""),
        ("postgres://a", ""),
        ("postgresql+psycopg:///db?host=/tmp/here", ""),
    ],
)
def test_a_faulty_address_of_postgres_has_its_fault_named_and_no_secret_shown(url: str, fault: str):
    found = fault_of_postgres(url)
    assert (fault in found) if fault else found == ""
    assert SECRET not in found


@pytest.mark.parametrize(
    "uri",
    [
        "http://h:7687",
        f"bolt://u:{SECRET}@h:7687",
        "",
        "h",
        "bolt://h:port",
        f"bolt://h?u={SECRET}@",
        f"bolt://h:7687?password={SECRET}",
    ],
)
def test_a_faulty_address_of_neo4j_is_refused_and_not_shown(uri: str):
    assert fault_of_neo4j(uri).startswith("no address of a Neo4j")
    assert SECRET not in fault_of_neo4j(uri)


def test_an_address_is_shown_without_what_may_be_secret():
    uri = f"neo4j+s://host.example:7687/x?password={SECRET}"
    assert (fault_of_neo4j(uri), shown_neo4j(uri)) == ("", "neo4j+s://host.example:7687")
