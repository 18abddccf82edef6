"""Observations that tests share."""

from ports import free_ports
from ryle.config import changed, example, load, parse


def own_paper():
    """PAPER's array and band with Ryle's own F-engines, four antennas each."""
    return changed(
        load(example("paper128")),
        fengine={"packets": None, "antennas_per_engine": 4, "sends": "meerkat"},
        xengine={"integration": "10.73741824 s"},
        catcher={"integration": None},
        network={"spectra": "127.0.0.1:17600"},
        simulate={"replay": None},
    )


def observe_rows(
    *, antennas=3, pols=("x", "y"), channels=64, sub=32, packet=8192, sends="rows", multicast=False, host="127.0.0.1"
):
    """An observation on free ports whose F-engines send rows."""
    names = ", ".join(f'{{ name = "A{a}", enu = ["{10 * a} m", "0 m", "0 m"] }}' for a in range(antennas))
    at = "239.77.3.1" if multicast else host
    return parse(
        f"""
        observation = {{ name = "rows", sync_time = "2026-03-20T20:00:00Z" }}
        band = {{ sample_rate = "8 MHz" }}
        digitizer = {{ heap_samples = 128 }}
        fengine = {{ channels = {channels}, taps = 4, sends = "{sends}" }}
        xengine = {{ integration = "0.05 s", channels_per_substream = {sub} }}
        [array]
        location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}
        polarizations = {list(pols)}
        antennas = [{names}]
        [network]
        digitizers = "127.0.0.1:{free_ports(antennas)}"
        spectra = "{at}:{free_ports(8)}"
        visibilities = "127.0.0.1:{free_ports(1)}"
        packet_size = "{packet} B"
        receive_buffer = "16 MiB"
        """,
        "test",
    )
