"""What a verb is: declared, with the schemas, prompts and reasons that it names, and a fingerprint
of its code."""
