"""What is found for a question, in each mode."""
