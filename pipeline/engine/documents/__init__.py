"""The documents of a run: those it deletes, those it keeps unread, and the list of all."""
