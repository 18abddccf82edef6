"""Formats with items and heaps, in sizes for tests."""

from ryle.wire.description import Format, names

GIVEN = {
    "meerkat_digitizer": {"bits": 10, "heap_samples": 256},
    "meerkat_f": {"channels": 8, "spectra": 16, "step": 1 << 13},
    "meerkat_x": {"channels": 4, "products": 10, "step": 1 << 20},
    "ryle_x": {"channels": 4, "products": 10, "step": 1 << 20, "groups": 2},
    "casper_x": {"channels": 4, "products": 12, "step": 1 << 18},
}


def small(name: str) -> Format:
    """Load a format, with small heaps if it has any."""
    return Format.load(name).given(**GIVEN.get(name, {}))


PLAIN = [name for name in names() if Format.load(name).header.items is None]
#: Formats of which a packet stands for itself.
ALONE = [name for name in names() if (heap := Format.load(name).heap) is None or heap.packets == "one"]
