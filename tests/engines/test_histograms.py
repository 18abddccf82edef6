"""Histograms of an engine's inputs: of the last second and in all, exactly what was counted; only while watched."""

import io
import time
from collections import Counter

import numpy as np
import pytest

from fresh import rng
from observations import observe_rows
from ryle.chunk import SampleChunk
from ryle.config import changed
from ryle.engines.glance import GlanceMaker
from ryle.engines.totals import InputTotals, measure
from ryle.monitor.control import ControlClient
from ryle.monitor.page import read_pages
from ryle.monitor.status import StatusReporter
from ryle.products.histograms import Histograms
from ryle.stream.metrics import Registry
from ryle.wire.samples import pack


@pytest.fixture
def o():
    return observe_rows(antennas=3, channels=48, sub=16)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def give(o, totals, values, at):
    """Give a chunk of one packet of each input, of these values; give back where the next begins."""
    data = np.stack([pack(v.astype(np.float32), o.digitizer.bits)[0] for v in values])[:, np.newaxis]
    chunk = SampleChunk(at, data, np.ones((len(values), 1), np.uint8), values.shape[1])
    totals.adc.add(chunk)
    return at + round(float(o.sample_rate) / 10)


def counted(values, levels):
    counts = Counter(values.ravel().tolist())
    return [counts.get(level, 0) for level in levels.tolist()]


def test_of_the_last_second_and_in_all(o, clock):
    random = rng()
    parts, m = [InputTotals(o, 2), InputTotals(o, 2)], Registry()
    measure(m, parts, o, range(1, 3))
    newest = m.beside["histograms"]
    seconds = [[random.integers(-511, 512, (2, 128)) for _ in parts] for _ in range(4)]
    at = [0, 0]

    def second(n):
        for k, part in enumerate(parts):
            at[k] = give(o, part, seconds[n][k], at[k])
        clock[0] += 1.0

    second(0)
    assert newest() is None  # nobody watches
    m.controls["watch"].set({})
    assert newest() is None  # of lately nothing is known
    for n in (1, 2):
        second(n)
        h = Histograms.from_bytes(newest())
        assert newest() is None  # not so soon
        assert (h.first_input, h.step, h.bits, h.clips) == (2, 1, 10, 511) and h.position == parts[0].adc.position
        for i in range(4):
            k, row = divmod(i, 2)
            assert h.lately[i].tolist() == counted(seconds[n][k][row], h.levels)
            every = np.concatenate([seconds[s][k][row] for s in range(n + 1)])
            assert h.in_all[i].tolist() == counted(every, h.levels)
    clock[0] += 1.0  # nothing came in this second: what was lately, stays
    np.testing.assert_array_equal(Histograms.from_bytes(newest()).lately, h.lately)
    clock[0] += 60
    second(3)
    assert newest() is None
    m.controls["watch"].set({})
    assert newest() is None  # a minute is not lately


def test_of_many_bits_several_values_have_a_level(clock):
    o = changed(observe_rows(antennas=1), digitizer={"bits": 12})
    totals, m = InputTotals(o, 2), Registry()
    measure(m, [totals], o, [0])
    m.controls["watch"].set({})
    newest = m.beside["histograms"]
    newest()
    values = rng().integers(-2047, 2048, (2, 128))
    values[0, :5] = 2047
    give(o, totals, values, 0)
    clock[0] += 1.0
    h = Histograms.from_bytes(newest())
    assert (h.step, h.bits) == (4, 0) and h.levels[-1] == 2048 and h.clips == 2048 - 4
    assert h.lately[0].sum() == 128 and h.lately[0, h.levels >= h.clips].sum() >= 5


def test_whoever_watches_gets_all_that_is_left(o, tmp_path, monkeypatch):
    """One control for glances and histograms, at the socket; the file lies beside the page while the engine runs."""
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    totals, m = InputTotals(o, 6), Registry()
    measure(m, [totals], o, range(3))
    maker = GlanceMaker(o, 0, 48)
    maker.register(m)
    values = rng().integers(-512, 512, (6, 128))
    at = give(o, totals, values, 0)
    file = tmp_path / "ryle.fx0" / "histograms"
    with StatusReporter({"role": "fx", "index": 0}, m, stream=io.StringIO()):
        (page,) = read_pages("fx0")
        time.sleep(0.3)
        assert not file.exists()
        with ControlClient(page) as client:
            client.set("watch", {"products": [3]})
        assert maker._audience.chosen == [3]
        end = time.monotonic() + 30
        while not file.exists() or not Histograms.from_bytes(file.read_bytes()).lately.any():
            assert time.monotonic() < end
            at = give(o, totals, values, at)
            time.sleep(0.05)


def test_where_there_is_no_room_the_engine_goes_on(o, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path))
    m = Registry()
    m.beside["histograms"] = lambda: b"x"
    out = io.StringIO()
    with StatusReporter({"role": "f", "index": 0}, m, stream=out, interval=0.05) as reporter:
        monkeypatch.setattr(reporter, "keep", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        end = time.monotonic() + 30
        while m.beside or len(out.getvalue().splitlines()) < 5:
            assert time.monotonic() < end
            time.sleep(0.01)
        before = len(out.getvalue().splitlines())
        while len(out.getvalue().splitlines()) < before + 3:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert capsys.readouterr().err.count("no histograms for those who watch") == 1
