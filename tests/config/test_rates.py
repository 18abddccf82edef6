"""Rates, memory and arithmetic against figures worked out by hand or published."""

import json
from pathlib import Path

import pytest

from observations import own_paper
from ryle.config import changed, example, load, rates
from ryle.wire import spead

SMALL = Path(__file__).parents[1] / "small.toml"


def link(o, name):
    return next(x for x in rates.links(o) if x.name == name)


def test_meerkat_links():
    o = load(example("meerkat_extension"))
    digitizer = link(o, "digitizer stream")
    assert digitizer.count == 160
    assert digitizer.packets == 1.712e9 / 4096
    assert digitizer.payload == 17.12e9
    # Ethernet 38 + IP 20 + UDP 8 + SPEAD header 8 + 8 item pointers of 8
    assert digitizer.wire == pytest.approx(1.712e9 / 4096 * 8 * (5120 + 38 + 20 + 8 + 8 + 64))
    assert digitizer.datagram == 5220
    assert link(o, "F-engine in").payload == 34.24e9
    assert link(o, "F-engine out").payload == pytest.approx(856e6 * 2 * 2 * 8)  # 8 + 8 bit at the Nyquist rate
    assert link(o, "X-engine in").payload == pytest.approx(34.24e9)  # what its X-engines are known to take
    assert link(o, "X-engine in").heap == 65536


def test_paper_links():
    for o in (own_paper(), load(example("paper128"))):
        received = link(o, "X-engine in")
        assert received.packets == 97656.25
        assert received.payload == 6.4e9
        assert received.packet == 8192
        assert received.count == 16
    assert received.datagram == 20 + 8 + 8200
    assert link(own_paper(), "F-engine in").packets == 8 * 200e6 / 8192


def test_alma_receives_more_than_a_terabit():
    o = load(example("alma72"))
    stream, received = rates.links(o)
    assert received.name == "FX in" and received.payload == 72 * 2 * 1.04e9 * 8
    assert stream.wire * stream.count == pytest.approx(received.wire)
    apart = link(o.model_copy(update={"fx": None}), "F-engine in")
    assert (apart.packets, apart.payload, apart.wire) == (received.packets, received.payload, received.wire)


@pytest.mark.parametrize("name", ["demo", "meerkat_extension", "vdif2"])
def test_what_is_sent_is_received(name):
    o = load(example(name))
    sent, received = link(o, "F-engine out"), link(o, "X-engine in")
    assert len(o.antennas) % len(o.f_engine_antennas(0)) == 0
    assert sent.packets * sent.count == pytest.approx(received.packets * received.count)
    assert sent.payload * sent.count == pytest.approx(received.payload * received.count)
    out, caught = link(o, "X-engine out"), link(o, "catcher in")
    assert out.wire * out.count == pytest.approx(caught.wire)
    assert all(x.wire > x.payload for x in rates.links(o))


def test_casper_visibilities():
    """PAPER's X-engines: 4 259 840 B a dump and X-engine, in 1040 packets of 4096 B and 48 B of header."""
    others = {"packets": None}, {"packets": "casper", "integration": None}
    o = changed(load(example("paper128")).model_copy(update={"simulate": None}), fengine=others[0], catcher=others[1])
    (caught,) = rates.links(changed(o, xengine={"integration": "10.73741824 s"}))
    assert (caught.heap, caught.packet, caught.datagram) == (4259840, 4096, 4096 + 48 + 28)
    assert caught.packets == pytest.approx(16 * 1040 / 10.73741824)


def test_visibility_heap():
    o = own_paper()
    assert rates.visibility_heap_bytes(o) == 8320 * 64 * 16 + 8320 * 4
    x = link(o, "X-engine out")
    assert x.packets == pytest.approx(1045 / 10.73741824)  # 8 552 960 B in packets of 8192 B


def test_overhead_is_that_of_the_packets_sent():
    o = load(SMALL)
    # IP 20, UDP 8; the heaps' own items as in the table of ryle.wire.spead
    for all_items, own in ((rates.SPECTRA_ITEMS, 4), (rates.VISIBILITY_ITEMS, 7)):
        assert rates.overhead(o, all_items) == 28 + spead.preamble(own)
    assert rates.digitizer_header(o) == spead.preamble(4)


def test_ipv6_costs_twenty_bytes_more():
    o = load(SMALL)
    six = changed(o, network={"digitizers": "[::1]:17100", "spectra": "[::1]:17600", "visibilities": "[::1]:17900"})
    assert rates.overhead(six, 0) - rates.overhead(o, 0) == 20


def test_load():
    paper = rates.load(load(example("paper128")))
    assert paper.f_samples == 128 * 200e6
    assert paper.x_ops == 8 * 128 * 129 / 2 * 100e6
    # Two real operations a tap and sample, 5/2 N log2 N of N = 2048 and 20 for each of 1024 channels.
    spectrum = 2 * 4 * 2048 + 2.5 * 2048 * 11 + 20 * 1024
    assert paper.f_flops == pytest.approx(128 * 200e6 / 2048 * spectrum)
    romein = rates.load(load(example("alma72")))
    assert romein.x_ops == pytest.approx(44e12, rel=0.02)  # design study: 44 TOPS
    assert romein.f_flops == pytest.approx(10e12, rel=0.1)  # and about 10 TFLOPS


def test_complex_samples_cost_two_real_ones():
    real = load(SMALL)
    cplx = changed(real, digitizer={"complex": True, "heap_samples": 2048}, fengine={"channels": 512})
    assert cplx.step == real.step == 512
    assert rates.load(cplx).f_samples == rates.load(real).f_samples
    n, spectra = 512, 8e6 / 512 * real.n_inputs
    assert rates.load(cplx).f_flops == pytest.approx(spectra * (4 * 8 * n + 5 * n * 9 + 20 * n))


def test_disk():
    o = own_paper()
    assert rates.file_rate(o) == pytest.approx(1024 * 8320 * 13 / 10.73741824)


def test_full_scale():
    o = load(SMALL)
    assert rates.full_scale_spectra(o, 32) == (2**31 - 1) // 32258 == 66572
    assert rates.full_scale_spectra(load(example("paper128")), 32) == (2**31 - 1) // 98


def test_summary_is_json():
    for name in ("demo", "meerkat_extension", "vdif2"):
        o = load(example(name))
        read = json.loads(json.dumps(rates.summary(o)))
        assert read["band"]["channels"] == o.fengine.channels
        assert read["band"]["direction"] == o.sideband_sign
        assert read["time"]["integration"] == o.integration_time
        assert [x["name"] for x in read["links"]] == [x.name for x in rates.links(o)]
