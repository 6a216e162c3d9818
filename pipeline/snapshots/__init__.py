"""Tables on disk, addressed by their content, and the records that point at them. Calls the
contract of tables."""
