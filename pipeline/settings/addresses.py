"""Check the addresses of databases and object stores, and show one without its secrets."""

from urllib.parse import urlsplit

NEO4J_SCHEMES = frozenset({"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"})
POSTGRES_DRIVERS = frozenset({"postgresql", "postgres", "postgresql+psycopg"})
POSTGRES_FORM = "write postgresql://user:password@host:5432/database, or embedded"
NEO4J_FORM = (
    "write bolt://host:7687 or neo4j://host:7687, and the user and the password under their own"
    " keys"
)


OBJECT_SCHEMES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})
OBJECT_FORM = (
    "write s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, with nothing else in it"
)


def is_object_store(address: str) -> bool:
    """Return whether the text is meant as an object store's address, right or wrong. A folder's
    path is not."""
    return "://" in address or address.partition(":")[0] in OBJECT_SCHEMES


def kind_of_store(address: str) -> str:
    """Return the kind of an object store by its address: s3, gs or az, else its scheme."""
    scheme = urlsplit(address).scheme
    aliases = {"s3a": "s3", "abfs": "az", "abfss": "az"}
    return aliases.get(scheme, scheme)


def fault_of_object_store(address: str) -> str:
    """Return what is wrong with an object store's address, or "".

    The message quotes nothing of the address, because it may hold a key.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return f"no address of an object store; {OBJECT_FORM}"
    if parts.scheme not in OBJECT_SCHEMES or not parts.netloc:
        return f"no address of an object store; {OBJECT_FORM}"
    if parts.password is not None or ("@" in parts.netloc and not parts.scheme.startswith("abfs")):
        return f"a key in an address; put it into the environment or .env; {OBJECT_FORM}"
    if parts.query or parts.fragment:
        return f"more than a bucket and a prefix; {OBJECT_FORM}"
    return ""


def fault_of_postgres(url: str) -> str:
    """Return what is wrong with the address of a PostgreSQL server, or "".

    The message quotes nothing of the address, because any part of it may be the password.
    """
    # Imported here, because a project with the embedded database does not need it.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        return f"not a URL, or one of several hosts; {POSTGRES_FORM}"
    if found.drivername not in POSTGRES_DRIVERS:
        return f"not a URL of PostgreSQL, or with a driver that is not used; {POSTGRES_FORM}"
    if "@" in (found.host or ""):
        return "an @ too many; write one in a user or a password as %40"
    if "," in (found.host or ""):
        return f"several hosts; name one; {POSTGRES_FORM}"
    return ""


def fault_of_neo4j(uri: str) -> str:
    """Return what is wrong with the address of a Neo4j server, or "". It quotes nothing of it."""
    try:
        parts = urlsplit(uri)
        has_host = bool(parts.hostname) and parts.port != 0
        # Only a routing driver takes parameters; the message of another one would quote them.
        is_bare = parts.scheme.startswith("neo4j") or not parts.query
        fits = parts.scheme in NEO4J_SCHEMES and has_host and is_bare and "@" not in uri
    except ValueError:
        fits = False
    return "" if fits else f"no address of a Neo4j; {NEO4J_FORM}"


def shown_neo4j(uri: str) -> str:
    """Return the scheme, host and port of an address in which ``fault_of_neo4j`` finds no fault."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"
