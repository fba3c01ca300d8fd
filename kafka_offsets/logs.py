"""Loggers whose lines a client cannot forge: unprintable characters in names and messages are escaped."""

import logging

from kafka_offsets.terminal import printable

_FORMATTER = logging.Formatter()


class _Escape(logging.Filter):
    """Escapes a line, its arguments and the text of its exception. Peers choose what these contain."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape; every line passes."""
        if isinstance(record.msg, str):
            record.msg = printable(record.msg)
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
