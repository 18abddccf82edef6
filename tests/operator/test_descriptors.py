"""A plain spead2 receiver, told nothing, reads what Ryle sends: names, shapes, types and values."""

import time

import numpy as np
import pytest
import spead2
import spead2.recv


def read(port, wanted, timeout=120):
    """Receive at a port until `wanted` (name of an item) came; all items."""
    stream = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig(max_heaps=64, stop_on_stop_item=False))
    stream.add_udp_reader(port, bind_hostname="127.0.0.1", buffer_size=8 << 20)
    group = spead2.ItemGroup()

    def take():
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                group.update(stream.get_nowait())
            except spead2.Empty:
                time.sleep(0.01)
            if wanted in group.keys() and group[wanted].value is not None:
                return group
        raise TimeoutError(f"no {wanted} at {port}: {list(group.keys())}")

    return take, stream


def immediates(group, *names):
    return [int(group[name].value) for name in names]


def test_digitizer_heaps(observation, ryle):
    path, ports = observation(duration=600, speed="0.5")
    take, stream = read(ports["digitizers"], "adc_samples")
    ryle("simulate", path)
    group = take()
    stream.stop()
    samples = group["adc_samples"]
    assert samples.id == 0x3300 and samples.value.shape == (1024,) and samples.format == [("i", 8)]
    assert 1 < np.std(samples.value) < 100
    timestamp, digitizer, _ = immediates(group, "timestamp", "digitiser_id", "digitiser_status")
    assert timestamp % 1024 == 0 and digitizer in (0, 1)


def test_spectra_heaps(observation, ryle):
    path, ports = observation(duration=600, speed="0.5")
    path.write_text(path.read_text().replace("[fengine]", '[fengine]\nsends = "meerkat"'))
    take, stream = read(ports["spectra"] + 1, "feng_raw")
    ryle("engine", "f", path, "--live").wait_ready()
    ryle("simulate", path)
    group = take()
    stream.stop()
    spectra = group["feng_raw"]
    assert spectra.id == 0x4300 and spectra.value.shape == (32, 64, 2, 2) and spectra.value.dtype == np.int8
    assert spectra.value.any()
    timestamp, antenna, channel = immediates(group, "timestamp", "feng_id", "frequency")
    assert timestamp % (64 * 128) == 0 and antenna == 0 and channel == 32


@pytest.mark.long
def test_meerkat_x_heaps(observation, ryle, tmp_path):
    """What MeerKAT's science data processors expect, from a whole run; which says that it writes no file."""
    path, ports = observation(duration=1.0, spectra=4096, xengine='sends = "meerkat"')
    take, stream = read(ports["visibilities"], "xeng_raw")
    run = ryle("run", path, "--output", tmp_path)
    group = take()
    sums = group["xeng_raw"]
    assert sums.id == 0x1800 and sums.value.shape == (32, 12, 2)
    assert sums.dtype == np.dtype("<i4") or sums.value.dtype == np.dtype("<i4")
    autos = sums.value[:, [0, 3, 8, 11]].astype(np.int64)  # products 4·index + p1 + 2·p2 of baselines 00, 11
    assert (
        not autos[..., 1].any()
        and (autos[2:-2, :, 0] > 0).all()
        and autos[2:-2, :, 0].max() < 100 * autos[2:-2, :, 0].min()
    )
    timestamp, channel = immediates(group, "timestamp", "frequency")
    assert timestamp % (4096 * 128) == 0 and channel in (0, 32)
    assert run.end() == 0, run.said
    stream.stop()
    assert "catcher does not read MeerKAT's X-heaps" in run.said and not (tmp_path / "small.uvh5").exists()
    check = ryle("check", path)
    assert check.end() == 0 and "catcher does not read" in " ".join(check.said.split())
    catcher = ryle("engine", "catcher", path)
    assert catcher.end() != 0 and "xengine.sends" in catcher.said
