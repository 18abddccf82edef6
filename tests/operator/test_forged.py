"""Forged X-heaps cost nobody else's data."""

import signal

import h5py
import numpy as np
import pytest

from x_heaps import CHANNELS, PARTS, SPECTRA, STEP, SUB, heap, spead


@pytest.fixture
def catching(observation, ryle, send, tmp_path, steady):
    """Run a test's body with a catcher; give it how to send it an integration, and how to end it: its file's spectra and flags.

    After a second without anything new a catcher believes whoever jumps: what the host holds up so long is tried again.
    """

    def start():
        path, ports = observation(duration=60)
        output = tmp_path / f"{ports['visibilities']}"
        process = ryle("engine", "catcher", path, "--output", output)
        process.wait_ready()
        process.port = ports["visibilities"]

        def give(index, substreams=(0, 1), value=1):
            for s in substreams:
                send(ports["visibilities"], heap(index, s, value))

        def end():
            process.signal(signal.SIGTERM)
            assert process.end(60) == 0, process.said
            with h5py.File(output / "small.uvh5") as file:
                times = np.unique(file["Header/time_array"])
                flags = file["Data/flags"][...].reshape(len(times), -1, CHANNELS, 4)
                samples = file["Data/nsamples"][...]
            return times, flags, samples, process.statuses[-1]["account"]

        return process, give, end

    return lambda body: steady(lambda: body(*start()))


def received(process, heaps):
    process.wait_for(lambda p: any((s.get("received") or 0) >= heaps * PARTS for s in p.statuses), 60)


def written(process, count):
    process.wait_for(lambda p: any(s.get("integrations", 0) >= count for s in p.statuses), 60)


def test_one_far_ahead(catching):
    def body(process, give, end):
        for index in range(5, 10):
            give(index)
        written(process, 4)
        give(10**6 + 10, [1], 7)
        for index in range(10, 25):
            give(index)
        written(process, 19)
        times, flags, _, account = end()
        assert len(times) == 20 and not flags.any()
        assert np.ptp(times) * 86400 == pytest.approx(19 * SPECTRA * STEP / 2e6, rel=1e-3)
        assert (account["placed"], account["missing"], account["malformed"]) == (40 * PARTS, 0, PARTS)

    catching(body)


def test_several_far_ahead(catching):
    """Forged ones right after the beginning, and again and again, at different times."""

    def body(process, give, end):
        give(5)
        give(10**7, [0], 7)
        for index in range(6, 25):
            give(index)
            give(10**6 + 1000 * index, [index % 2], 7)
        written(process, 19)
        times, flags, _, account = end()
        assert len(times) == 20 and not flags.any()
        assert (account["placed"], account["missing"]) == (40 * PARTS, 0) and account["malformed"] == 20 * PARTS

    catching(body)


def test_true_jump(catching):
    """All X-engines go on much later: the packets that it takes to believe it are kept, and nothing is lost."""

    def body(process, give, end):
        for index in [*range(5, 10), *range(4000, 4010)]:
            give(index)
        written(process, 15)
        times, flags, _, account = end()
        assert len(times) == 15 and not flags.any()
        assert (account["placed"], account["malformed"]) == (30 * PARTS, 0)

    catching(body)


def test_lone_stream_goes_on(catching):
    """One of the X-engines dies: the other one's channels are written, those of the first are flagged."""

    def body(process, give, end):
        for index in range(5, 10):
            give(index)
        for index in range(10, 40):
            give(index, [1])
        received(process, 40)
        times, flags, _, account = end()
        assert len(times) == 35 and account["placed"] == 40 * PARTS and account["malformed"] == 0
        assert not flags[:5].any() and flags[5:, :, :SUB].all() and not flags[5:, :, SUB:].any()

    catching(body)


@pytest.mark.parametrize(
    "length", [(1 << 48) - 1, *(pytest.param(1 << n, marks=pytest.mark.long) for n in (31, 32, 39))]
)
def test_impossible_heap_length(catching, send, length):
    def body(process, give, end):
        for index in range(5, 8):
            give(index)
        items = [(1, 99), (3, 0), (4, 64), (0x1600, 8 * SPECTRA * STEP), (0x4103, 0), (0x4104, SPECTRA)]
        for at in (1, 6):  # items come in any order
            send(process.port, [spead([*items[:at], (2, length), *items[at:]], [(0x1801, 0)], bytes(64))])
        for index in range(8, 15):
            give(index)
        written(process, 9)
        times, flags, _, account = end()
        assert len(times) == 10 and not flags.any()
        assert (account["placed"], account["malformed"]) == (20 * PARTS, 2)

    catching(body)
