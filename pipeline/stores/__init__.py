"""The protocols of databases, for the load and the query stage, and the adapters that implement
them."""
