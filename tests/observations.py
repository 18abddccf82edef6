"""Observations that tests share."""

from ryle.config import changed, example, load


def own_paper():
    """PAPER's array and band with Ryle's own F-engines, four antennas each."""
    return changed(
        load(example("paper128")),
        fengine={"packets": None, "antennas_per_engine": 4},
        xengine={"integration": "10.73741824 s"},
        catcher={"integration": None},
        network={"spectra": "127.0.0.1:17600"},
        simulate={"replay": None},
    )
