"""Reading files: bytes to text, and text to records."""
