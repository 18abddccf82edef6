"""Pages of F-engines and catchers that note what they are asked."""

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
            {
                key: Control("json", get=lambda: None, set=self.setter(key))
                for key in ("gains", "delays", "polynomials", "phase_centre", "read_gains", "trigger")
            },
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
            if key == "read_gains":
                return {"sample": 0, "gains": self.o.gains[value["inputs"]]}
            sample = value.get("sample", self.next)
            return {"sample": sample} | (
                {"end": sample + 4096, "file": f"f{self.index}.chunks"} if key == "trigger" else {}
            )

        return take


class FakeCatcher:
    """A page of a catcher whose scans others set."""

    def __init__(self, o, index, directory, next_scan):
        self.o, self.asked, self.directory = o, [], directory
        self.scan = {"file": f"{directory}/demo.uvh5", "integration": o.file_time, "queued": []}
        self.page = StatusPage(
            f"catcher{index}", {"scan": Control("json", get=lambda: dict(self.scan), set=self.set_scan)}
        )
        self.page.keep("observation.toml", o.text.encode())
        self.next = next_scan
        said = {"role": "catcher", "index": index, "next_scan": next_scan, "directory": str(directory)}
        self.page.publish(said | {"file": self.scan["file"]})

    def set_scan(self, value):
        if value.get("sample", self.next) < self.next:
            raise ValueError(f"late: sample {value['sample']} has passed")
        self.asked.append(value)
        writes = value.get("write", bool(self.scan["file"]))
        file = f"{self.directory}/{value.get('name', 'next')}.uvh5" if writes else ""
        self.scan = {"file": file, "integration": value.get("integration", self.scan["integration"]), "queued": []}
        return {"sample": value.get("sample", self.next), **self.scan}


@contextlib.contextmanager
def fake_engines():
    """Give what makes them, of the demo's observation: index, inputs, and from which sample on changes can be made."""
    o = load(example("demo"))
    with contextlib.ExitStack() as stack:

        def make(index, inputs, *arguments, **options):
            engine = FakeEngine(o, index, inputs, *arguments, **options)
            stack.callback(engine.page.close)
            return engine

        def catcher(index, directory, next_scan):
            found = FakeCatcher(o, index, directory, next_scan)
            stack.callback(found.page.close)
            return found

        make.catcher = catcher
        yield make
