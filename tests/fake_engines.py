"""Pages of F-engines that note what they are asked."""

import contextlib

from ryle.config import example, load
from ryle.monitor.publish import StatusPage
from ryle.stream.controls import Control


class FakeEngine:
    """A page of an F-engine with some inputs, which notes what it is asked."""

    def __init__(self, o, index, inputs, next_sample, *, moves=0):
        self.o, self.inputs, self.next, self.moves, self.asked = o, inputs, next_sample, moves, []
        self.page = StatusPage(
            f"f{index}",
            {key: Control("json", get=lambda: None, set=self.setter(key)) for key in ("gains", "delays")},
        )
        self.page.keep("observation.toml", o.text.encode())
        self.index = index
        self.publish()

    def publish(self):
        names = [f"{self.o.antennas[i // 2].name} {'xy'[i % 2]}" for i in self.inputs]
        said = {"role": "f", "index": self.index, "first_input": self.inputs[0], "inputs": names}
        self.page.publish(said | {"next_sample": self.next})

    def setter(self, key):
        def take(value):
            self.next += self.moves
            if value.get("sample", self.next) < self.next:
                self.publish()
                raise ValueError(f"late: sample {value['sample']} has passed")
            self.asked.append((key, value))
            return {"sample": value.get("sample", self.next)}

        return take


@contextlib.contextmanager
def fake_engines():
    """Give what makes them, of the demo's observation: index, inputs, and from which sample on changes can be made."""
    o = load(example("demo"))
    with contextlib.ExitStack() as stack:

        def make(index, inputs, *arguments, **options):
            engine = FakeEngine(o, index, inputs, *arguments, **options)
            stack.callback(engine.page.close)
            return engine

        yield make
