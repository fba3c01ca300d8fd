"""Rounds of the loops that disturb ZooKeeper: the options of their command lines, and what they print."""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar


class Loop(Protocol):
    """A broker or a cluster with clients, to which one thing happens in each round."""

    @property
    def acknowledged(self) -> int:
        """How many commits were acknowledged so far."""

    def close(self) -> None:
        """Stop everything."""


L = TypeVar("L", bound=Loop)


def run_rounds(
    description: str | None,
    new_loop: Callable[[Path, int], L],
    play: Callable[[L, int], tuple[str, str]],
    arguments: list[str] | None,
) -> None:
    """Run rounds, and print what they have shown.

    description  the help of the command
    new_loop     makes a loop of a directory and a seed
    play         carries out the round of a number; returns what happened, and the result to print
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    happened: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        loop = new_loop(Path(directory), options.seed)
        try:
            for number in range(1, options.rounds + 1):
                happening, result = play(loop, number)
                happened[happening] += 1
                print(f"round {number}: {happening}, {result}", flush=True)
        finally:
            loop.close()
    print(f"{options.rounds} rounds {dict(happened)}: {loop.acknowledged} commits acknowledged, none lost")
