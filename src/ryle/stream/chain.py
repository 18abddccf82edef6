"""Steps that only enqueue work on devices, one behind the other in one thread.

Such a step has little to do and much to call: in threads of their own they would ask each other for Python's lock a
hundred times a batch, and each asking is a sleep and a wake-up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ryle.stream.step import Step

_WAIT = 0.05  # seconds between two looks at whether another input has something
_LOOK = 1e-3  # seconds between two at whether somebody outside has given room


class Chain(Step):
    """Steps of a signal path, of which each takes its turn when something has come for it.

    Parameters
    ----------
    steps : sequence of Step
        In the order of the signal path; all `Step.enqueues`.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("+".join(dict.fromkeys(step.name for step in steps)), [r for s in steps for r in s.outputs])
        self.steps = list(steps)
        read = {id(reader.ring) for step in steps for reader in step.sources}
        #: Rings between these steps: who waited for room in one would wait for itself.
        self._inner = {
            id(step): [] if step.has_room else [ring for ring in step.outputs if id(ring) in read] for step in steps
        }
        inner = {id(ring) for step in steps for ring in step.outputs if id(ring) in read}
        self._heads = [step for step in steps if not all(id(reader.ring) in inner for reader in step.sources)]

    def run(self) -> None:
        """Let steps take turns until the last has ended."""
        left = list(self.steps)
        while left:
            moved = False
            for step in list(left):
                moved |= self._turn(step, 0.0)
                if step.ended:
                    step.finish()
                    for ring in step.outputs:
                        ring.close()
                    left.remove(step)
            if not moved:
                self._wait([step for step in self._heads if step in left])

    def _wait(self, heads: Sequence[Step]) -> None:
        """Wait until something comes from outside; a head that has no room waits for another."""
        able = [step for step in heads if all(ring.free for ring in self._inner[id(step)])]
        for step in able:
            if step.turn(_WAIT):
                return
        if not able:
            time.sleep(_LOOK)

    def _turn(self, step: Step, timeout: float) -> bool:
        return all(ring.free for ring in self._inner[id(step)]) and step.turn(timeout)


def threads(steps: Sequence[Step]) -> list[Step]:
    """Say what gets a thread of its own: steps, and chains of those that `Step.enqueues` and read each other."""
    found: list[list[Step]] = []
    for step in steps:
        mine = [step]
        if step.enqueues:
            read = {id(reader.ring) for reader in step.sources}
            before = [
                group for group in found if group[0].enqueues and any(id(r) in read for s in group for r in s.outputs)
            ]
            for group in before:
                found.remove(group)
            mine = [*(s for group in before for s in group), step]
        found.append(mine)
    return [group[0] if len(group) == 1 else Chain(group) for group in found]
