"""How good retrieval is, mode by mode, with no chat model."""
