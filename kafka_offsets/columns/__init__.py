"""Columns: many records at a time, with numpy (the extra `fast`). Buffers in, arrays out: no files, no coordinator."""
