"""Who watches an engine: told by the control ``watch``, believed for some seconds. Nobody: nothing is made for them."""

from __future__ import annotations

import threading
import time
from typing import Any

from ryle.stream.controls import Control

#: Seconds for which whoever said that he watches is taken to; products that are chosen at most, by all who watch.
WATCHED, MOST_CHOSEN = 10.0, 64


class Audience:
    """Those who watch; any thread asks.

    Parameters
    ----------
    products : int
        Of the array: those from 0 on may be chosen.
    """

    def __init__(self, products: int) -> None:
        self._products = products
        self._lock = threading.Lock()
        self._until = -1.0  # when nobody watches any more
        self._chosen: dict[int, float] = {}
        means = f"who watches sets it every {WATCHED:g} s: products whose full spectra are to be seen"
        #: The control.
        self.control = Control("json", means=means, get=self._asked, set=self.watch)

    @property
    def there(self) -> bool:
        """Whether somebody watches now."""
        return time.monotonic() < self._until

    @property
    def chosen(self) -> list[int]:
        """Products whose full spectra somebody wants to see, in order."""
        now = time.monotonic()
        with self._lock:
            return sorted(p for p, until in self._chosen.items() if until > now)

    def _asked(self) -> dict[str, list[int]]:
        return {"products": self.chosen}

    def watch(self, value: Any) -> None:
        """Be told by somebody that he watches.

        Parameters
        ----------
        value : dict
            ``products``: those that he wants to see, none if absent.

        Raises
        ------
        ValueError
            If it is something else; says what is allowed.
        """
        products = value.get("products", []) if isinstance(value, dict) else None
        if not isinstance(products, list) or len(products) > MOST_CHOSEN:
            raise ValueError(f'watch takes {{"products": [...]}}, at most {MOST_CHOSEN} of them')
        if not all(type(p) is int and 0 <= p < self._products for p in products):
            raise ValueError(f"products are numbers from 0 to {self._products - 1}")
        until = time.monotonic() + WATCHED
        with self._lock:
            self._until = until
            for product in products:
                self._chosen.pop(product, None)
                self._chosen[product] = until
            while len(self._chosen) > MOST_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
