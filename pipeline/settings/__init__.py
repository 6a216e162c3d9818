"""settings.yaml: its schema, and how it is read. Calls nothing but errors."""
