"""What a verb or a query may ask of a model, and the adapters that answer."""
