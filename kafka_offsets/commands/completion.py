"""`kafka-offsets completion SHELL`: a script that completes commands, options and files. Made by shtab."""

import argparse
from collections.abc import Iterator

from kafka_offsets.errors import ConfigError

_SHELLS = ("bash", "zsh", "tcsh")
_FILES, _DIRECTORIES = ("FILE", "LOG", "PATH"), ("DIR", "DIRECTORY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that the script is for")
    parser.epilog = (
        'bash: eval "$(kafka-offsets completion bash)" in ~/.bashrc; zsh: in ~/.zshrc, after compinit.'
    )


def run(options: argparse.Namespace, program: argparse.ArgumentParser) -> int:
    """Print the script.

    program  the parser of all commands
    ConfigError if shtab is not installed.
    """
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise ConfigError("completion needs shtab: pip install shtab") from error
    for action in _actions(program):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(program, shell=options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all arguments of a parser and of the parsers of its actions."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
