"""Columns: many records or names at a time, with numpy (the extra `fast`). No files, no coordinator."""
