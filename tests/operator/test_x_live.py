"""An X-engine of 128 inputs behind others' F-engines, in real time over several integrations, loses nothing."""

import json
import signal

from ports import free_ports

FILE = """
[observation]
sync_time = "2026-11-20T23:58:00Z"
[array]
location = {{ latitude = "-30.7224 deg", longitude = "21.4278 deg", height = "1073 m" }}
polarizations = ["x", "y"]
antennas = [
{antennas}
]
[band]
sample_rate = "8 MHz"
[fengine]
packets = "paper_psa128"
channels = 1024
output_bits = 4
[xengine]
integration = "3 s"
channels_per_substream = 64
[network]
spectra = "127.0.0.1:{spectra}"
visibilities = "127.0.0.1:{visibilities}"
receive_buffer = "4 MiB"
"""
PER_SECOND = 16 * 8_000_000 / 2048 / 16  # of 16 F-engines, packets of 16 spectra


def test_nothing_is_lost_while_integrations_are_sent(ryle, tmp_path, steady):
    """X-heaps of 8.6 MB take half an integration to send; meanwhile packets go on to come."""
    antennas = "\n".join(f'{{ name = "A{i}", enu = ["{15 * i} m", "0 m", "0 m"] }},' for i in range(64))

    def body():
        path = tmp_path / "paper.toml"
        port = free_ports(16)
        path.write_text(FILE.format(antennas=antennas, spectra=port, visibilities=free_ports(1)))
        engine = ryle("engine", "x", path, "--live")
        engine.wait_ready()
        rate = ("--pps", PER_SECOND, "--seconds", 13, "--json", tmp_path / "sent.json", "--quiet")
        sender = ryle("send", "paper_psa128", "--to", f"127.0.0.1:{port}", "--sources", 16, *rate)
        assert sender.end(60) == 0, sender.said
        sent = json.loads((tmp_path / "sent.json").read_text())["expect"]["placed"]
        engine.signal(signal.SIGTERM)
        assert engine.end(60) == 0, engine.said
        last = engine.statuses[-1]
        assert sent > 12.5 * PER_SECOND and last["account"]["missing"] == 0, last
        assert last["account"]["placed"] == last["account"]["datagrams"] == sent, last
        assert last["sent"] >= 4, last

    steady(body)
