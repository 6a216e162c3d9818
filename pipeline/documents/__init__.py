"""Files in, documents out: finding, decoding and reading what lies in the input folder."""
