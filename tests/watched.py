"""What views watch, in tests: looks that are shown one after the other, in place of a correlator."""

import threading
from contextlib import contextmanager
from dataclasses import replace


class Watched:
    """Has the methods of a watcher; sees what it is shown, and notes what it is asked for."""

    def __init__(self, sight, observation=None, glances=()):
        self.observation, self.chosen = observation, []
        self._sight, self._glances = sight, glances
        self._changed = threading.Condition()

    def show(self, **fields):
        """Let the next look be as this one, but for some fields."""
        with self._changed:
            self._sight = replace(self._sight, **fields)
            self._changed.notify_all()

    @contextmanager
    def moving(self, rate):
        """Show so many looks a second while the block lasts, each with the next of its glances."""
        stop = threading.Event()

        def run():
            number = 0
            while not stop.wait(1 / rate):
                number += 1
                glance = replace(self._glances[number % len(self._glances)], number=number)
                self.show(time=self._sight.time + 1 / rate, glance=glance)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def sight(self):
        return self._sight

    def wait(self, after, timeout):
        with self._changed:
            there = self._changed.wait_for(lambda: self._sight.time != after, timeout)
            return self._sight if there else None

    def choose(self, products):
        self.chosen += products

    def history(self):
        return [self._sight]
