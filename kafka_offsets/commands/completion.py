"""`kafka-offsets completion SHELL`: a script that completes commands, options and files.

That of fish is made here, those of other shells by shtab.
"""

import argparse
from collections.abc import Iterator

from kafka_offsets.errors import ConfigError

_SHELLS = ("bash", "zsh", "tcsh", "fish")
_FILES, _DIRECTORIES = ("FILE", "LOG", "PATH"), ("DIR", "DIRECTORY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that the script is for")
    parser.epilog = (
        'bash: eval "$(kafka-offsets completion bash)" in ~/.bashrc; zsh: in ~/.zshrc, after compinit; '
        "fish: kafka-offsets completion fish | source in ~/.config/fish/config.fish."
    )


def run(options: argparse.Namespace, program: argparse.ArgumentParser) -> int:
    """Print the script.

    program  the parser of all commands
    ConfigError if shtab is not installed.
    """
    if options.shell == "fish":
        print("\n".join(["complete -c kafka-offsets -f", *_fish_lines(program, [])]))
        return 0
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


def _fish_lines(parser: argparse.ArgumentParser, before: list[str]) -> Iterator[str]:
    """Yield the lines of fish for a parser, and for those of its commands.

    before  conditions: the commands that lead to it, and none of its own
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            names = " ".join(action.choices)
            unseen = [*before, f"not __fish_seen_subcommand_from {names}"]
            for name, inner in action.choices.items():
                yield _fish_line(unseen, f"-a {name}", helps.get(name, ""))
                yield from _fish_lines(inner, [*before, f"__fish_seen_subcommand_from {name}"])
        elif action.help is not argparse.SUPPRESS:
            names = " ".join(
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            )
            if names or (action.nargs != 0 and _fish_values(action) != "-x"):
                yield _fish_line(before, f"{names} {_fish_values(action)}".strip(), action.help or "")


def _fish_values(action: argparse.Action) -> str:
    """Return what fish completes after an option, or in place of an argument."""
    if action.nargs == 0:
        return ""
    is_option = bool(action.option_strings)
    if action.choices is not None:
        return f"{'-x ' if is_option else ''}-a '{' '.join(map(str, action.choices))}'"
    if action.metavar in _FILES:
        return "-r -F" if is_option else "-F"
    if action.metavar in _DIRECTORIES:
        return f"{'-x ' if is_option else ''}-a '(__fish_complete_directories)'"
    return "-x"


def _fish_line(conditions: list[str], what: str, help_: str) -> str:
    when = f" -n '{'; and '.join(conditions)}'" if conditions else ""
    text = help_.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
    return f"complete -c kafka-offsets{when} {what} -d '{text}'"
