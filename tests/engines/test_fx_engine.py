"""F and X in one process with sockets, on a CPU and on an emulated GPU: the sums of all that was sent."""

import time

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from ryle.bench.fx import OneThread
from ryle.channelize import cuda
from ryle.config import changed
from ryle.correlate import cuda as correlate_cuda
from ryle.engines import gpus
from ryle.engines.fx_engine import fx_engine
from ryle.send.digitizer import DigitizerSender
from ryle.simulate import VoltageSimulator
from ryle.store.chunk_file import ChunkFile


class Kept:
    """What would be a file."""

    def __init__(self):
        self.found, self.records, self.closed = [], {}, False

    @property
    def integrations(self):
        return len(self.found)

    def append(self, pieces):
        (integration,) = pieces
        arrays = integration.visibilities.copy(), integration.counts.copy()
        self.found.append((integration.first_spectrum, *arrays))
        return len(self.found)

    def record(self, name, value):
        self.records[name] = value

    def close(self):
        self.closed = True


@pytest.mark.parametrize(("backend", "numbers"), [("cpu", []), ("cuda", []), ("cuda", [1, 0])])
def test_sums_of_what_was_sent(observe, monkeypatch, steady, tmp_path, backend, numbers):
    first = DeferredGpu(fresh.seed())
    made = [first, DeferredGpu(fresh.seed(), beside=first)]
    monkeypatch.setattr(gpus, "open_gpu", lambda number=0: made[number])
    for module in (cuda, correlate_cuda):
        monkeypatch.setattr(module, "open_gpu", EmulatedGpu)
    o = observe(antennas=2, bits=10, heap_samples=512, sends="rows", sub=64, integration_spectra=192, duration=0.05)
    o = changed(o, fx={"backend": backend, "gpus": numbers}, fengine={"batch": 128}, simulate={"speed": "max"})
    chunk = VoltageSimulator(o).chunk(0, 150 * 512)
    thread = OneThread(o)
    wanted = [*thread.push(chunk), *thread.flush()]

    def body():
        kept, told = Kept(), []
        engine, write = fx_engine(o, lambda: kept, output=tmp_path)
        trigger = engine.metrics.controls["trigger"]
        write.written = lambda number, integration: told.append((number, integration.first_spectrum))
        with engine:
            engine.start()
            asked = trigger.set({"sample": 0, "samples": 100 * 512})
            with DigitizerSender(o) as sender:
                sender.send(chunk)
            deadline = time.monotonic() + 60
            while engine.metrics.values()["received"] < chunk.present.size and time.monotonic() < deadline:
                time.sleep(0.02)
            engine.drain()
            assert engine.wait(120)
            figures = engine.metrics.values()
        written = list(ChunkFile(asked["file"]))
        if not trigger.get()["lost"]:  # at full speed a disk may be too slow
            assert [c.timestamp for c in written] == list(range(0, asked["end"], asked["end"] // len(written)))
        for c in written:
            at = slice(c.timestamp // 512, c.timestamp // 512 + c.present.shape[1])
            there = chunk.data[:, at].shape[1]
            np.testing.assert_array_equal(c.data[:, :there], chunk.data[:, at])
            assert c.present[:, :there].all() and not c.present[:, there:].any()
        assert written and trigger.get()["state"] == "done"
        assert figures["account"]["missing"] == 0 and figures["integrations"] == len(wanted) == len(kept.found) > 3
        assert figures["position"] * float(o.sample_rate) == (wanted[-1].first_spectrum + 192) * o.step
        assert figures["saturated"] >= 0 and min(figures["input_rms"]) > 1 and kept.closed
        assert told == [(n + 1, first) for n, (first, *_) in enumerate(kept.found)]
        for (first, visibilities, counts), one in zip(kept.found, wanted, strict=True):
            assert first == one.first_spectrum
            np.testing.assert_array_equal(visibilities, one.visibilities)
            np.testing.assert_array_equal(counts, one.counts)
        assert kept.records["adc_histogram"].sum(axis=1).all()

    steady(body)
