"""Parsers of the replies of chat models, as pure functions. No reply raises an error."""
