"""Cache of replies, vectors and conversions in a database, with the hash of the request as key."""
