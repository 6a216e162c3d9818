"""Chat, embedding and rerank models: the protocols, and the adapters that implement them."""
