"""Text that a peer cannot forge: names and messages of others are written without what would control a terminal."""

import sys


def printable(text: str) -> str:
    r"""Return a text as one line: a line feed becomes \n, the escape character \x1b, and so on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shown(text: str, most: int = 40) -> str:
    """Return a text of others in quotes, shortened, with invisible characters written out, spaces but U+0020 too."""
    return f"'{printable(text[:most])}{'…' if len(text) > most else ''}'"


def note(text: str) -> None:
    """Write a line to standard error, as the program."""
    sys.stderr.write(f"kafka-offsets: {printable(text)}\n")
