"""A whole correlator in real time, for many integrations, each of which takes half of its time to send: nothing lost."""

import io

import h5py
import pytest
from rich.console import Console

from ryle.config import load
from ryle.engines.run import run_processes

SPECTRA, CHANNELS, RATE = 384, 1024, 2_000_000
LENGTH = SPECTRA * 2 * CHANNELS / RATE  # seconds of an integration
COUNT = 12


@pytest.mark.long
def test_nothing_is_lost_while_visibilities_are_sent(observation_text, tmp_path, steady):
    """Ten inputs, X-heaps of 1 MB that are sent over half of each integration, for twelve of them."""
    file = tmp_path / "small.toml"
    text = observation_text(
        antennas=5,
        rate=RATE,
        channels=CHANNELS,
        sub=CHANNELS,
        heap_samples=4096,
        packet=8192,
        integration_spectra=SPECTRA,
        duration=COUNT * LENGTH,
        simulate='speed = 1.0\nreplay = "50 ms"',
    )

    def body():
        file.write_text(text)
        result = run_processes(load(file), tmp_path, console=Console(file=io.StringIO()), overwrite=True)
        assert set(result.accounts) == {"F 0", "X 0", "catcher"}
        for name, account in result.accounts.items():
            lost = {key: account[key] for key in ("missing", "late", "duplicate", "malformed", "kernel_drops")}
            assert not any(lost.values()), (name, lost)
            assert account["placed"] > 0
        with h5py.File(result.file) as written:
            times = written["Header/Ntimes"][()]
            samples = written["Data/nsamples"][()].reshape(times, -1)
        assert times in (COUNT, COUNT + 1)  # spectra that the last samples only touch may begin another
        assert (samples[1 : COUNT - 1] == 1).all()
        assert (samples[0] > 0.9).all()  # delays read before the first sample

    steady(body)
