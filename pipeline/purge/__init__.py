"""Remove a document and every trace of it, or all that only earlier nights hold."""
