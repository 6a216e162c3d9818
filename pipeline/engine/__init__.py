"""Runs workflows of verbs over snapshots. Knows no store, and no model but by the contract."""
