"""Subcommands of `kafka-offsets`, one module each; `cli.py` finds them."""
