"""What every page in HTML is made with: templates, style and texts, of serve's page, of reports and
of evaluations."""
