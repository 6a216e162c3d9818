"""Code."""

KNOWN_AS: dict[str, str] = {}
