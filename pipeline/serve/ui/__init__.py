"""The page: four views (ask, graph, documents, runs), each with an address of its own, in
templates and plain modules of JavaScript that need no build. No address has a prefix: all of them
are relative, so that the page can stand anywhere below a proxy."""
