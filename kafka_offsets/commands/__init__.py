"""Subcommands of `kafka-offsets`, one module each; `cli.py` finds them.

The command line is argparse, with shtab for completion and rich for progress bars. 143 arguments are declared with it.
About 40 lines around it write errors in one line, propose a similar word and take descriptions from the list of
commands; another 45 pass the arguments to shtab. Click has these parts, but no options that exclude each other, which
five commands need, and its completion starts the program at each key. Its import adds 20 ms to every start, and a
module of arguments would still be imported only when it is used.
"""
