"""Search: keywords of a question, and the evidence that each mode finds in the stores."""
