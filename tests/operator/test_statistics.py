"""What F-engines find out about their inputs comes to the file, also from engines that are started by hand."""

import signal

import h5py
import numpy as np
import pytest


def statistics(path):
    with h5py.File(path) as file:
        return {
            name: value[()] for name, value in file["Ryle"].items() if name not in ("observation", "first_spectrum")
        }


def same(live, offline):
    assert set(live) == set(offline) >= {"adc_histogram", "adc_levels", "adc_labels", "adc_power"}
    assert live["adc_histogram"].sum(axis=1).all()
    for name, value in live.items():
        np.testing.assert_array_equal(value, offline[name], err_msg=name)


@pytest.fixture
def correlated(ryle, tmp_path):
    """Correlate the packets that a simulated array sends, without sending them."""

    def correlate(path):
        capture = tmp_path / "samples.pcap"
        for command in (
            ["simulate", path, "--pcap", capture],
            ["correlate", path, "-i", capture, "-o", tmp_path / "file"],
        ):
            process = ryle(*command)
            assert process.end() == 0, process.said
        return statistics(tmp_path / "file/small.uvh5")

    return correlate


@pytest.mark.long
def test_a_run_and_correlating_its_packets_say_the_same(observation, ryle, correlated, tmp_path, steady):
    path, _ = observation(duration=3)
    offline = correlated(path)

    def body():
        run = ryle("run", path, "--output", tmp_path / "live", "--overwrite")
        assert run.end() == 0, run.said
        same(statistics(tmp_path / "live/small.uvh5"), offline)

    steady(body)


@pytest.mark.long
def test_engines_by_hand(observation, ryle, correlated, tmp_path, steady):
    path, _ = observation(duration=3, speed="0.5", sub=64)
    offline = correlated(path)

    def body():
        out = tmp_path / "live"
        stages = [[("f", "--index", 0), ("f", "--index", 1)], [("x",)], [("catcher", "--output", out, "--overwrite")]]
        running = [[ryle("engine", name, path, *more) for name, *more in stage] for stage in stages]
        for stage in running:
            for engine in stage:
                engine.wait_ready()
        array = ryle("simulate", path)
        assert array.end() == 0, array.said
        for stage in running:
            for engine in stage:
                engine.signal(signal.SIGTERM)
            for engine in stage:
                assert engine.end() == 0, engine.said
        same(statistics(out / "small.uvh5"), offline)

    steady(body)


def test_a_file_without_says_so(observation, ryle, tmp_path):
    path, _ = observation()
    catcher = ryle("engine", "catcher", path, "--output", tmp_path)
    catcher.wait_ready()
    catcher.signal(signal.SIGTERM)
    assert catcher.end() == 0, catcher.said
    found = statistics(tmp_path / "small.uvh5")
    assert set(found) == {"adc_missing"} and "network.statistics" in found["adc_missing"].decode()
