"""Actions as Kafka's scripts write them: `--list` and others are options there, and the first word here."""

from collections.abc import Mapping


def with_action(words: list[str], actions: Mapping[str, str]) -> list[str]:
    """Return the words of a command with the action in front, also of a command line of Kafka's script.

    actions  our action for each one of the script
    """
    named = [word for word in words if word in actions]
    if len(named) != 1 or not words[0].startswith("-"):
        return words
    return [actions[named[0]], *(word for word in words if word != named[0])]
