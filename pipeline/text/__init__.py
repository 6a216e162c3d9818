"""Properties of texts that every other room uses: identity, words, sentences and tokens."""
