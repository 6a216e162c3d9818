"""Loads the tables of a manifest into the stores, writing only what differs. It calls a store by
its protocol only."""
