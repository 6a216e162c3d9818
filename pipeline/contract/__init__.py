"""The declaration of a verb: its schemas, law, prompts and reasons of rejects, and a fingerprint of
its code."""
