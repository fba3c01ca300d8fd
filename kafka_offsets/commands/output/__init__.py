"""Output: tables, and the progress of what takes long."""
