"""A project's queries over HTTP and the Model Context Protocol, thin over Project."""
