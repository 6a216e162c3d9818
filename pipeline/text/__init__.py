"""What a text is, to every other room: its identity, words, sentences and tokens. Calls nothing."""
