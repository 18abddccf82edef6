"""Correlators in real time, and engines without an operation, in small."""

import pytest

from ryle.bench.engine import Correlator, bench_engine, free_run
from ryle.bench.engine_search import CASES, bench_search
from ryle.bench.one_engine import OneEngine, receiver
from ryle.config import parse
from ryle.send.visibilities import VisibilitySender


def test_sizes():
    """What is said of a correlator is what its observation says."""
    c = Correlator(antennas=7, rate=2e6, channels=512, integration=0.3, count=5, engines=2)
    o = parse(c.text([20000, 21000, 22000]), "test")
    assert (o.integration_spectra, o.f_engines, o.substreams) == (c.spectra, 2, 1)
    assert float(o.integration_time) == pytest.approx(c.seconds) and c.seconds == pytest.approx(0.3, rel=0.2)
    assert c.heap_bytes == 16 * o.fengine.channels * o.products
    assert c.gbps == pytest.approx(7 * 2 * 2e6 * 10 / 1e9)
    assert float(o.end_sample / o.sample_rate) == pytest.approx(5 * c.seconds, rel=0.01)


@pytest.mark.long
def test_two_at_the_same_time(tmp_path, steady):
    def body():
        file = tmp_path / "engines.json"
        small = Correlator(antennas=3, rate=1e6, channels=256, integration=0.5, count=5)
        (row,) = bench_engine(small, copies=2, path=file)
        assert row.more["lost_packets"] == 0, row.more["lost"]
        assert len(row.more["integrations"]) == 2 and min(row.more["integrations"]) >= 5
        inner = zip(row.more["whole_between_first_and_last"], row.more["integrations"], strict=True)
        assert all(whole == n - 2 for whole, n in inner)
        assert all(set(placed) == {"F 0", "X 0", "catcher"} for placed in row.more["placed"])
        assert '"lost_packets": 0' in file.read_text()

    steady(body)


@pytest.mark.parametrize(
    "kind, work, copies, receivers",
    [
        ("x", "counted", 1, 1),
        ("f", "nothing", 1, 1),
        ("x", "nothing", 1, 1),
        *((*each, 1, 1) for each in CASES.values()),
        ("f", "whole", 2, 1),
        ("f", "whole", 1, 3),
        ("x", "whole", 1, 2),
    ],
)
def test_all_is_received_slowly(kind, work, copies, receivers, steady):
    def body():
        receives = receiver(OneEngine(kind, work, receivers=receivers), copies)
        try:
            for _ in range(2):
                trial = receives.trial(0.02, 0.5)
                assert trial.sent > 100 * copies and trial.lost == 0
                assert trial.offered == pytest.approx(0.02, rel=0.1)
        finally:
            receives.close()

    steady(body)


def test_what_engines_send_is_not_paced_below_what_they_take():
    """At the pace of the example's array, or of a simulator at full speed, a search would find that pace."""
    x, f = (OneEngine(kind, port=23000).observation for kind in ("x", "f"))
    assert x.simulate is None and f.simulate is None
    sender = VisibilitySender(x, 0)
    integrations = sender.rate / (16 * x.substream_channels * x.products)  # a second
    assert integrations * x.integration_spectra * x.n_inputs * x.substream_channels * 8e-9 > 40
    sender.close()
    assert f.fengine.pace * f.n_inputs * float(f.sample_rate) * f.digitizer.bits * 1e-9 > 400


def test_two_engines_that_are_searched(tmp_path, steady):
    """What is found is a rate without loss, with an interval around it, or the rate that was asked for at most."""

    def body():
        file = tmp_path / "search.json"
        (row,) = bench_search(file, copies=(2,), only="capture", seconds=0.3, confirm=0.5, most=0.2)
        assert row.value == pytest.approx(0.2, rel=0.05) and row.more["limit"] == "nothing: --most"
        assert row.more["low"] > 0.15 and row.more["confirmed"] == pytest.approx(0.5, rel=0.2)
        assert '"copies": 2' in file.read_text()

    steady(body)


def test_ports_in_a_row():
    first = free_run(5, 30000)
    assert free_run(5, first) == first
