"""Growing columns: arrays of equal length to which rows are added. It needs numpy (the extra `fast`)."""

from typing import TYPE_CHECKING, Any

import numpy as np


class GrowingColumns:
    """Arrays of equal length that grow; an attribute for each.

    defaults  name -> (dtype, value of a new row)
    """

    def __init__(self, **defaults: tuple[Any, int]) -> None:
        self._defaults = defaults
        for name, (dtype, _) in defaults.items():
            setattr(self, name, np.zeros(0, dtype))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def grow(self, count: int) -> None:
        """Grow to at least `count` rows."""
        for name, (dtype, default) in self._defaults.items():
            column = getattr(self, name)
            if len(column) < count:
                more = np.full(max(count, 2 * len(column)) - len(column), default, dtype)
                setattr(self, name, np.concatenate((column, more)))
