"""Models behind any address that supports the OpenAI protocol, by direct calls or by its Batch
API."""
