"""Models behind any address that speaks the OpenAI protocol, at once or by its Batch API."""
