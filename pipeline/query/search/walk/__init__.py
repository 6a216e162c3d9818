"""Mode ``graph``: a walk over passages and entities."""
