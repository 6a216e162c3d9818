"""What the load and the query stage ask of a database, and the adapters that answer."""
