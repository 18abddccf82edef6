"""Gains and delays that are changed in the middle of a run: the file shows them from the promised sample on, and only there."""

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import aiokatcp
import h5py
import numpy as np
import pytest
from pyuvdata import UVData

import fresh
from ryle.array.observed import sync_time
from ryle.cli import load
from ryle.config import load as load_observation
from ryle.monitor.control import ControlClient
from ryle.monitor.page import read_pages
from ryle.serve.asking import SteeringError
from ryle.serve.katcp import KatcpServer
from ryle.watch.watcher import Watcher
from steered_runs import boundary, visibilities

#: Several runs in real time each, which may be done again.
pytestmark = pytest.mark.timeout(600)


def command(arguments):
    """Do what ``ryle control`` does, without the seconds that a process takes to start."""
    load("control").main(arguments, standalone_mode=False)


def test_the_file_shows_it_from_the_promised_sample_on_and_nowhere_else(run):
    o = None

    def steer(seconds, by_command):
        def meanwhile(telescope):
            nonlocal o
            o = telescope.observation
            sample = boundary(o, seconds)
            for wrong, told in [
                (lambda: telescope.set_gains(np.nan), "finite"),
                (lambda: telescope.set_gains(2.0, ["A7"]), "no input 'A7': there are A0 x, A0 y"),
                (lambda: telescope.set_delays([1.0, 0, 0, 0], ["A1"]), r"beyond fengine\.max_delay"),
                (lambda: telescope.set_delays([0, 0, math.inf, 0], ["A1"]), "finite"),
                (lambda: telescope.set_delays([0, 2.0, 0, 0], ["A1"]), "less than 1"),
                (lambda: telescope.set_gains(2.0, ["A0 x"], 0), "late: sample 0 has passed"),
                (lambda: telescope.set_gains(2.0, None, 0), "late: sample 0 has passed"),
            ]:
                with pytest.raises(SteeringError, match=told):
                    wrong()
            if by_command:
                command(["gains", "2@90", "--input", "A1 y", "--at", str(sample)])
                command(["delays", "0.5 us", "--phase", "60", "--input", "A2", "--at", str(sample)])
                return sample
            change = telescope.set_gains(2j, ["A1 y"], sample)
            assert change.sample == sample and change.engines == {"f0": sample}
            assert telescope.set_delays([0.5e-6, 0, math.pi / 3, 0], ["A2"], sample).sample == sample
            return sample

        return meanwhile

    # Import all that the command needs, now.
    with pytest.raises(SteeringError, match="no observation called none"):
        command(["gains", "1", "--observation", "none"])
    plain, (first, second), _, _ = run("plain")
    early, _, low, _ = run("early", steer(2.5, False))
    late, _, high, _ = run("late", steer(4.0, True))
    length = o.integration_spectra * o.step
    low, high = low // length, high // length
    assert 0 < low < high < len(plain) - 1
    last = min(len(plain), len(early), len(late)) - 1  # which is not whole

    for i in range(6):
        a, b = first[i], second[i]
        for p, (one, two) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
            mine = [early[:last, i, ..., p], late[:last, i, ..., p], plain[:last, i, ..., p]]
            changed = {a * 2 + one, b * 2 + two} & {3, 4, 5}
            np.testing.assert_array_equal(mine[0][:low], mine[2][:low])
            np.testing.assert_array_equal(mine[1][:high], mine[2][:high])
            if not changed:
                np.testing.assert_array_equal(mine[0], mine[2])
                np.testing.assert_array_equal(mine[1], mine[2])
                continue
            # From the later of the two changes on, it is the same whenever the change was made.
            np.testing.assert_array_equal(mine[0][high:], mine[1][high:])
            if {a * 2 + one, b * 2 + two} == {3}:  # what was multiplied by 2j, to quantization's noise
                ratio = np.median(mine[0][low:].real / mine[2][low:].real)
                assert abs(ratio - 4) < 0.15  # quantization adds the same noise to both
            elif a != b:
                assert (np.abs(mine[0][low:] - mine[2][low:]).max(axis=-1) > 0).all()


def test_as_soon_as_can_be(run):
    """Changes without a time hold for all engines from one sample on, which has not passed."""

    def meanwhile(telescope):
        (page,) = [p for p in read_pages() if p.name == "f1"]
        count = 5000

        def ask():
            begin = time.monotonic()
            for n in range(count):
                time.sleep(max(0.0, begin + n / 2500 - time.monotonic()))
                if n % 2:
                    client.ask("gains", {"gains": 1.0 + n / count, "inputs": [4 + n // 2 % 2]})
                else:
                    client.ask("delays", {"models": [1e-9 * (n % 97), 0, 0, 0], "inputs": [4 + n // 2 % 2]})

        with ControlClient(page) as client:  # 2500 changes a second cost no packet, as `run` sees
            threading.Thread(target=ask).start()
            samples = [client.answer()["sample"] for _ in range(count)]
        assert samples[::2] == sorted(samples[::2]) and samples[1::2] == sorted(samples[1::2])
        told = [telescope.set_gains(0.0, ["A0", "A2"]), telescope.set_gains(0.0, ["A1 x"])]
        assert set(told[0].engines) == {"f0", "f1"} and len(set(told[0].engines.values())) == 1
        o = telescope.observation
        return [t.sample / (o.integration_spectra * o.step) for t in told]

    data, (first, second), (all_of_them, one), _ = run("soon", meanwhile, duration="10 s")
    autos = [i for i in range(6) if first[i] == second[i]]
    for i in autos:
        for p in range(2):
            since = {0: all_of_them, 2: all_of_them, 1: one if p == 0 else 1e9}[first[i]]
            power = data[:-1, i, ..., p].real.sum(axis=-1)
            assert (power[: math.floor(since)] > 0).all()
            after = power[math.ceil(since) :]
            # Dither alone is left: a quarter of a step of noise in each part at most.
            assert (after < 0.01 * power[0]).all() and (len(after) > 3 or since == 1e9)


def test_each_scan_has_its_file_and_phase_centre(run):
    """Of one run: what is tracked, whether and where it is written and how long it is summed change, each to the bit."""
    source = {"ra": "07h00m20s", "dec": "-29d58m00s"}

    def meanwhile(telescope):
        o = telescope.observation
        unit = o.integration_spectra * o.step
        with pytest.raises(SteeringError, match=r"name is '\.\./x'"):
            telescope.set_scan(file="../x", sample=9 * unit)
        with pytest.raises(SteeringError, match="ra is"):
            telescope.set_phase_centre(float("nan"), 0.0, sample=9 * unit)
        change = telescope.set_phase_centre(105 + 20 / 240, -29 - 58 / 60, "S1", 10 * unit - 7, "on-S1")
        assert change.engines == dict.fromkeys(["f0", "f1", "catcher0"], 10 * unit)
        command(["scan", "--integration", "0.5 s", "--at", str(14 * unit)])
        assert telescope.set_scan(False, sample=18 * unit).said["catcher0"]["file"] == ""
        assert not telescope.writes()
        command(["scan", "--start", "--file", "last", "--at", str(20 * unit)])
        with pytest.raises(SteeringError, match="is there already"):
            telescope.set_scan(file="demo", sample=22 * unit)

    field, _, _, _ = run("field")
    on_source, _, _, _ = run("source", **source)
    first, _, _, out = run("scans", meanwhile)
    here = {name: visibilities(out / f"{name}.uvh5", 0)[0] for name in ("demo", "on-S1", "demo-2")}
    here["last"], _ = visibilities(out / "last.uvh5", 1)
    assert {path.stem for path in out.glob("*.uvh5")} == set(here)
    assert [len(each) for each in here.values()][:3] == [10, 4, 2] and len(first) == 10
    np.testing.assert_array_equal(here["demo"], field[:10])
    np.testing.assert_array_equal(here["on-S1"], on_source[10:14])
    assert (here["on-S1"] != field[10:14]).any(axis=(0, 2, 3))[[1, 2, 4]].all()
    for name, begin in (("demo-2", 14), ("last", 20)):
        count = 2 if name == "demo-2" else 1
        pairs = on_source[begin : begin + 2 * count].reshape(count, 2, *on_source.shape[1:]).mean(axis=1)
        np.testing.assert_allclose(here[name][:count], pairs, rtol=0, atol=1e-6 * np.abs(pairs).max())
    centres = {}
    for name in here:
        data = UVData.from_file(out / f"{name}.uvh5", read_data=False)
        (centre,) = data.phase_center_catalog.values()
        centres[name] = centre["cat_name"]
        assert data.integration_time[0] == pytest.approx(0.262144 if name in ("demo", "on-S1") else 0.524288)
        if name == "on-S1":
            assert np.degrees([centre["cat_lon"], centre["cat_lat"]]) == pytest.approx([105 + 20 / 240, -29 - 58 / 60])
    assert centres == {"demo": "field", "on-S1": "S1", "demo-2": "S1", "last": "S1"}
    said = " ".join((out / "said").read_text().split())
    assert "on nothing is written, as was asked" in said and "S1 (RA 105.083°, Dec -29.9667°), 0.524288 s an" in said
    assert said.count("last.uvh5") == 2  # when it began, and at the end


def test_f_and_x_in_one_process_turn_together(run):
    """To the only source there is: from the promised integration on all its fringes stand still, at phase 0."""

    def meanwhile(telescope):
        unit = telescope.observation.integration_spectra * telescope.observation.step
        change = telescope.set_phase_centre(105 + 20 / 240, -29 - 58 / 60, "S1", 10 * unit)
        assert change.engines == {"fx0": 10 * unit} and change.said["fx0"]["file"].endswith("demo-2.uvh5")
        return telescope.set_scan(file="longer", integration=0.6, sample=15 * unit).said["fx0"]["integration"]

    before, (first, second), length, out = run("fx", meanwhile, fx=True)
    after, _ = visibilities(out / "demo-2.uvh5", 0)
    longer, _ = visibilities(out / "longer.uvh5", 1)
    assert (len(before), len(after)) == (10, 5) and len(longer) == 5 and length == pytest.approx(0.524288)
    crosses = [i for i in range(6) if first[i] != second[i]]

    def phase(data):
        """Of each integration and cross-correlation of x with x, averaged over the band; and how coherent it is."""
        band = data[:, crosses, 10:-10, 0]
        return np.angle(band.mean(axis=2)), np.abs(band.mean(axis=2)) / np.abs(band).mean(axis=2)

    for data in (after, longer[:-1]):
        angle, coherence = phase(data)
        assert np.abs(angle).max() < 0.2 and coherence.min() > 0.8
    angle, _ = phase(before)
    assert np.abs(angle).max() > 1


def test_a_katcp_client_drives_a_run(run):
    """With MeerKAT's request names: gains, delays and what is written change from the samples that it was promised."""
    stream = "antenna-channelised-voltage"

    async def drive(telescope):
        o = telescope.observation
        unit = o.integration_spectra * o.step
        at = [float(sync_time(o).unix + Fraction(n * unit) / o.sample_rate) for n in range(24)]
        with Watcher(interval=0.2) as watcher:
            server = KatcpServer(telescope, watcher, "127.0.0.1", 0)
            await server.start()
            client = await aiokatcp.Client.connect(*server.sockets[0].getsockname())
            async with asyncio.timeout(60):
                await client.request("delays", stream, at[10], *["0.0,0.0:0.0,0.0"] * 6)
                _, (turned,) = await client.request("sensor-value", "steady-state-timestamp")
                assert abs(int(turned.arguments[4]) - 10 * unit) < unit, "too late for it"
                await client.request("capture-stop", stream, at[14])
                await client.request("capture-start", stream, at[17])
                _, (last,) = await client.request("sensor-value", "steady-state-timestamp")
                await client.request("gain", stream, "A1_x", "0")
                reply, _ = await client.request("gain", stream, "A1_x")
            client.close()
            await client.wait_closed()
            await server.stop()
        assert abs(int(last.arguments[4]) - 17 * unit) < unit and [complex(r.decode()) for r in reply] == [0]
        return telescope.gains(["A1 x"])

    plain, (first, second), _, _ = run("plain")
    data, _, gains, out = run("katcp", lambda telescope: asyncio.run(drive(telescope)))
    again, _ = visibilities(out / "demo-2.uvh5")
    assert (gains == 0).all() and len(data) == 14
    others = [i for i in range(6) if 1 not in (first[i], second[i])]
    np.testing.assert_array_equal(data[:10, others], plain[:10, others])
    crosses = [i for i in others if first[i] != second[i]]
    assert (data[10:, crosses] != plain[10:14, crosses]).any(axis=(2, 3)).all()
    (auto,) = [i for i in range(6) if first[i] == second[i] == 1]
    power = again[:-1, auto, :, 0].real.sum(axis=-1)
    assert (power < 0.01 * plain[0, auto, :, 0].real.sum()).all()
    with h5py.File(out / "demo-2.uvh5") as file:
        assert file["Ryle/first_spectrum"][0] == 17 * load_observation(out / "o.toml").integration_spectra


@pytest.mark.parametrize(
    "seconds", [pytest.param(10, marks=pytest.mark.long), pytest.param(60, marks=pytest.mark.soak)]
)
def test_2500_changes_a_second_lose_nothing(run, steady, seconds):
    """Of gains and delays, at the sockets of two F-engines that observe: each is done, none is late, no packet is lost."""
    rate = 2500
    tries = iter(range(9))

    def meanwhile(_):
        pages = [p for p in read_pages() if p.name in ("f0", "f1")]

        def steer(page, random):
            first = page.values["first_input"]
            inputs = range(first, first + len(page.values["inputs"]))
            count, begin = rate * seconds // len(pages), time.monotonic()
            kinds = random.integers(0, 2, count)

            def ask():
                for n in range(count):
                    time.sleep(max(0.0, begin + n * len(pages) / rate - time.monotonic()))
                    of = {"inputs": [int(random.choice(inputs))]}
                    if kinds[n]:
                        client.ask("gains", {"gains": random.uniform(0.5, 2.0), **of})
                    else:
                        client.ask("delays", {"models": [random.uniform(-1e-6, 1e-6), 1e-12, 0.1, 0.0], **of})

            with ControlClient(page) as client:
                asking = threading.Thread(target=ask)
                asking.start()
                samples = np.array([client.answer()["sample"] for _ in range(count)])
                asking.join()
            for kind in range(2):
                assert (np.diff(samples[kinds == kind]) >= 0).all()
            return time.monotonic() - begin, kinds.sum()

        with ThreadPoolExecutor() as pool:
            done = list(pool.map(steer, pages, [fresh.rng(), fresh.rng()]))
        now = {p.name: p.values for p in read_pages()}
        for page, (took, gains) in zip(pages, done, strict=True):
            assert took < seconds + 2
            assert now[page.name]["late_controls"] == 0
            assert abs(now[page.name]["gains_set"] - gains) < rate  # as it was said last
            assert abs(now[page.name]["delays_set"] + gains - rate * seconds // 2) < rate

    def body():
        data, _, _, _ = run(f"minute-{next(tries)}", meanwhile, duration=f"{seconds + 10} s")
        assert len(data) >= (seconds + 9) / 0.262144

    steady(body)
