"""Where packets of spectra begin, there and back: headers made for a place are parsed as that place."""

import numpy as np
import pytest

from ryle.wire.build import build
from ryle.wire.description import Format, names
from ryle.wire.packets import Parser
from ryle.wire.spectra import SpectraLayout, headers

USABLE = ["ata_v1", "hera_snap", "paper_psa128"]


def test_which_shipped_formats_can_be_taken():
    taken = []
    for name in names():
        try:
            SpectraLayout.of(Format.load(name))
        except ValueError:
            continue
        taken.append(name)
    assert taken == USABLE


@pytest.mark.parametrize("name", USABLE)
def test_headers(rng, name):
    format = Format.load(name)
    layout = SpectraLayout.of(format)
    step, period = layout.spectra, format.period
    for _ in range(20):
        spectrum = int(rng.integers(0, 2 * period // step)) * step  # beyond the counter's range, which wraps
        sender, group = int(rng.integers(0, 8)), int(rng.integers(0, 8)) if "channel" in format.placement else 0
        fields = layout.header(spectrum, sender * layout.inputs, group * layout.channels)
        packet = build(format, fields, bytes(layout.payload_bytes))
        assert len(packet) == layout.packet_bytes
        found = Parser(format).parse([packet])
        assert found.valid.all() and found.timestamp[0] == spectrum % period
        assert layout.first_inputs(found.antenna, found.input)[0] == sender * layout.inputs
        assert max(0, found.channel[0]) == group * layout.channels
        many = headers(format, {n: np.array([v, v], np.uint64) for n, v in fields.items()}, 2)
        assert many.tobytes() == 2 * packet[: format.header.bytes]


def test_places_without_a_packet():
    layout = SpectraLayout.of(Format.load("paper_psa128"))
    assert layout.header(16 * 5, 8 * 3, 64 * 2) == {"mcnt": 5, "fid": 3, "xid": 2}
    assert layout.header((1 << 52) + 32, 0, 0)["mcnt"] == 2
    for place, what in (((8, 0, 0), "spectrum 8"), ((0, 4, 0), "input 4"), ((0, 0, 63), "channel 63")):
        with pytest.raises(ValueError, match=f"no packet that begins with {what}"):
            layout.header(*place)
