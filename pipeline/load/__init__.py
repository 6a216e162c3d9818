"""Bring the stores to what a manifest says, writing only what differs. Calls stores by their
contract."""
