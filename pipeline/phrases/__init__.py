"""Names and key phrases of a text by rules and word lists alone: Latin scripts and Chinese."""
