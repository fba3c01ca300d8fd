"""Is a history of reads and writes of one register that of a register, in which each took effect at one moment?

The search of Wing and Gong (Testing and verifying concurrent objects, 1993): of the operations that none has to
precede, one after the other is tried as the next to take effect, and what has been tried is remembered, as Lowe does
(Testing for linearizability, 2017). An operation without an answer may have taken effect at any time since, or never.
"""

from collections.abc import Sequence
from typing import NamedTuple

NEVER = float("inf")
NOTHING = -1
"""What a register holds at first."""


class Operation(NamedTuple):
    """One operation on a register.

    wrote     the value that it has written, or was to write; None: it reads
    expected  the value upon which it was to write, None: whatever there is
    found     the value that it has read, that of a refused write included; None: it does not say
    called, answered   when; `answered` is NEVER of an operation whose answer was lost
    is_refused         the register did not hold what was expected
    """

    client: int
    wrote: int | None
    expected: int | None
    found: int | None
    called: float
    answered: float
    is_refused: bool = False


def apply(operation: Operation, value: int) -> int | None:
    """The value of the register after an operation; None when it cannot take effect upon this value."""
    if operation.found is not None and operation.found != value:
        return None
    if operation.wrote is None:
        return value
    if operation.answered == NEVER:  # its answer is not known
        return operation.wrote if operation.expected in (None, value) else value
    holds = operation.expected in (None, value)
    if holds == operation.is_refused:
        return None
    return operation.wrote if holds else value


def is_linearizable(history: Sequence[Operation]) -> bool:
    """Whether there is an order in which a register answers as this one did."""
    operations = sorted(history, key=lambda operation: operation.called)
    answered = sum(1 << index for index, o in enumerate(operations) if o.answered != NEVER)
    tried = set()
    open_states = [(0, NOTHING)]
    while open_states:
        state = open_states.pop()
        if state in tried:
            continue
        tried.add(state)
        done, value = state
        if done & answered == answered:
            return True
        first_answer = NEVER
        for index, operation in enumerate(operations):
            if done >> index & 1:
                continue
            if operation.called > first_answer:
                break
            first_answer = min(first_answer, operation.answered)
            after = apply(operation, value)
            if after is not None:
                open_states.append((done | 1 << index, after))
    return False
