"""Loggers whose lines a client cannot forge: unprintable characters in names and messages are escaped."""

import logging

_FORMATTER = logging.Formatter()


def printable(text: str) -> str:
    r"""Return a text as one line: a line feed becomes \n, the escape character \x1b, and so on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class _Escape(logging.Filter):
    """Escapes the arguments of a line and the text of its exception. Clients choose what these contain."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape; every line passes."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_printable_argument, record.args))
        if record.exc_info and not record.exc_text:
            lines = _FORMATTER.formatException(record.exc_info).split("\n")
            # No line of a traceback can look like a log line.
            record.exc_text = "\n".join(f"  {printable(line)}" for line in lines)
        return True


_ESCAPE = _Escape()


def _printable_argument(argument: object) -> object:
    if isinstance(argument, int | float):
        return argument
    text = str(argument)
    return argument if text.isprintable() else printable(text)


def new_logger(name: str) -> logging.Logger:
    """Return the logger of a module. All loggers of this package are created here."""
    logger = logging.getLogger(name)
    logger.addFilter(_ESCAPE)
    return logger
