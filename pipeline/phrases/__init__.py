"""Find names and key phrases in texts by rules and word lists alone, without a model.

There are readers for Latin and other scripts with capitals, for Chinese, and for scripts without
capitals.
"""
