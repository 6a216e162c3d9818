"""Templates, style and texts shared by all pages in HTML: the server's page, reports of runs, and
evaluations."""
