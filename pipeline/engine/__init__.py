"""The engine: it runs workflows of verbs over snapshots. It imports no store, and knows models only
by their protocols."""
