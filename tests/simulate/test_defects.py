"""What each defect of a simulated array does to samples and packets, beside the same array without it."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm
from simulated import ONE, observation
from typer.testing import CliRunner

from ryle.config import ConfigError, Observation, changed, example, load
from ryle.send.samples import SampleMaker
from ryle.simulate import VoltageSimulator
from ryle.wire.samples import unpack

SEED = "seed = 20260101\nrms = 40.0\ngain_error = 0.05\n"
RATE, HEAP = 8_000_000, 512
START = 3001  # sample: in no packet's and no segment's beginning
AT = f'start = "{START * 125} ns"'


def pair(defects="", rfi="", **more):
    """The same array with things wrong with it, and without."""
    more = {"bits": 10, "sources": ONE} | more
    table = "".join(f", {{ {d} }}" for d in ([defects] if isinstance(defects, str) and defects else defects))
    text = SEED + (f"rfi = [{{ {rfi} }}]\n" if rfi else "") + (f"defects = [{table[2:]}]\n" if table else "")
    return VoltageSimulator(observation(simulate=text, **more)), VoltageSimulator(observation(simulate=SEED, **more))


def both(defects, samples=8192, first=0, **more):
    wrong, right = pair(defects, **more)
    return wrong.voltages(first, samples), right.voltages(first, samples)


@pytest.mark.parametrize("complex_samples", [False, True])
def test_a_defect_that_has_not_begun_changes_no_bit(complex_samples):
    tone = 'rfi = [{ frequency = "1.4017 GHz", level = 0.5 }]'
    o = observation(complex_samples=complex_samples, bits=10, sources=ONE, simulate=SEED + tone)
    right, late = VoltageSimulator(o), VoltageSimulator(changed(o, simulate={"defects": late_defect(o)}))
    for first, count in ((0, 40), (3333, 7)):
        data = right.chunk(first * HEAP, count * HEAP).data
        np.testing.assert_array_equal(late.chunk(first * HEAP, count * HEAP).data, data)
        assert len(np.unique(data)) > 100


def late_defect(o: Observation):
    """One that begins when all is over."""
    text = SEED + 'defects = [{ kind = "dead", start = "3000 s" }]'
    return observation(simulate=text, sources=ONE).simulate.defects


def test_dead_is_zero_from_its_sample_on_and_only_there():
    wrong, right = both(f'kind = "dead", input = "A1 y", {AT}, stop = "{6000 * 125} ns"')
    expected = right.copy()
    expected[3, START:6000] = 0
    np.testing.assert_array_equal(wrong, expected)


def test_clipping_stands_at_the_ends_of_the_scale():
    wrong, right = pair(f'kind = "clipping", input = "A0 x", {AT}')
    samples = 200 * HEAP
    codes = unpack(wrong.chunk(0, samples).data, 10).reshape(6, -1)
    plain = unpack(right.chunk(0, samples).data, 10).reshape(6, -1)
    np.testing.assert_array_equal(codes[1:], plain[1:])
    np.testing.assert_array_equal(codes[0, :START], plain[0, :START])
    # The receiver's noise has the rms of the scale's end; gain and sky add to it.
    rms = right.voltages(0, samples)[0].std() * 511 / 40
    share = np.mean(np.abs(codes[0, START:]) == 511)
    assert abs(share - 2 * norm.sf(510.5 / rms)) < 0.01 and share > 0.25
    eight, _ = both('kind = "clipping", input = "A0 x", factor = 8.0')
    np.testing.assert_allclose(eight[0], 8 * right.voltages(0, 8192)[0], rtol=1e-6)


@pytest.mark.parametrize("which", [None, [0], [2], [1, 2]])
@pytest.mark.parametrize(
    ("defect", "order"),
    [('kind = "swapped", input = "A1"', [0, 1, 3, 2, 4, 5]),
     ('kind = "exchanged", input = ["A0", "A2"]', [4, 5, 2, 3, 0, 1])],
)  # fmt: skip
def test_cables_are_exchanged_whichever_antennas_are_made_together(defect, order, which):
    wrong, right = pair(f"{defect}, {AT}", inputs="")
    expected = right.voltages(0, 8192)
    expected[:, START:] = expected[order, START:]
    some = VoltageSimulator(wrong.observation, which)
    np.testing.assert_array_equal(some.voltages(0, 8192), expected[some.inputs])


def test_a_delay_of_whole_samples_is_the_signal_later():
    delay = 5
    wrong, right = pair(f'kind = "delay", input = "A2 x", delay = "{delay * 125} ns", {AT}')
    first = 1 << 20
    made, plain = wrong.voltages(first, 4000), right.voltages(first - delay, 4000)
    scale = np.abs(plain[4]).max()
    # Fringes are held during a segment: they turn a little otherwise where segments are cut elsewhere.
    assert np.sqrt(np.mean((made[4] - plain[4]) ** 2)) < 0.02 * scale
    assert np.sqrt(np.mean((made[4] - right.voltages(first, 4000)[4]) ** 2)) > 0.2 * scale
    before, unharmed = wrong.voltages(0, START), right.voltages(0, START)
    np.testing.assert_allclose(before, unharmed, atol=0.03 * scale)


def test_a_delay_turns_interference_by_its_own_phase():
    frequency, delay = 1.4017e9, 40e-9
    tone = f'frequency = "{frequency:.0f} Hz", level = 1000.0'
    wrong, _ = pair('kind = "delay", input = "A0 y", delay = "40 ns"', rfi=tone)
    right, _ = pair(rfi=tone)
    n = 80000
    at = np.exp(-2j * np.pi * (frequency - 1.4e9) / RATE * np.arange(n))
    phase = np.angle((wrong.voltages(0, n)[1] @ at) / (right.voltages(0, n)[1] @ at))
    assert abs(np.angle(np.exp(1j * (phase + 2 * np.pi * frequency * delay)))) < 0.01


def test_a_receiver_without_sky_has_no_fringe_but_its_noise():
    n = 400_000
    wrong, right = both('kind = "noise", input = "A1"', samples=n, antennas=2, sources=ONE.replace("100", "4000"))
    others = [0, 1]
    np.testing.assert_array_equal(wrong[others], right[others])

    def coherence(waves):
        # Antennas are at most a few samples of light apart: the strongest lag.
        a, b = np.fft.rfft(waves[0]), np.fft.rfft(waves[2])
        lag = np.abs(np.fft.irfft(a * b.conj()))
        return lag.max() / np.sqrt(np.sum(waves[0] ** 2) * np.sum(waves[2] ** 2)) * n / n

    assert coherence(wrong) < 6 / np.sqrt(n) < 0.05 < coherence(right)
    np.testing.assert_allclose(wrong[2:].std(axis=1), 40, rtol=0.2)  # gain errors are 5 %


def test_losses_are_the_share_and_the_same_in_any_chunks():
    wrong, _ = pair([f'kind = "loss", input = "A1 x", loss = 0.2, {AT}', 'kind = "dead"'])  # zeros are soon made
    packets = 6000
    whole = wrong.chunk(0, packets * HEAP).present
    kept = whole[2]
    assert whole[[0, 1, 3, 4, 5]].all() and kept[: -(-START // HEAP)].all()
    lost = int((kept == 0).sum())
    assert abs(lost - 0.2 * packets) < 6 * np.sqrt(packets * 0.2 * 0.8)
    again = VoltageSimulator(wrong.observation, [1])
    cuts = [0, 1, 777, 4095, 4097, packets]
    parts = [again.chunk(a * HEAP, (b - a) * HEAP).present for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole[2:4])


def test_losses_of_a_window_that_is_replayed_are_not_replayed():
    text = SEED + 'replay = "0.01 s"\ndefects = [{ kind = "loss", loss = 0.5 }]'
    simulator = VoltageSimulator(observation(simulate=text))
    length = simulator.replay_samples
    first, second = (simulator.chunk(k * length, length) for k in (0, 1))
    np.testing.assert_array_equal(first.data, second.data)
    assert (first.present != second.present).any()


def test_a_jump_is_of_time_stamps_and_of_nothing_else():
    wrong, right = pair(f'kind = "jump", input = "A1", samples = {-3 * HEAP}, {AT}')
    first, packets = 0, 20
    chunk, plain = wrong.chunk(first, packets * HEAP), right.chunk(first, packets * HEAP)
    np.testing.assert_array_equal(chunk.data, plain.data)
    shifts = wrong.defects.shifts(first, packets)
    expected = np.zeros((6, packets), int)
    expected[2:4, -(-START // HEAP) :] = -3 * HEAP
    np.testing.assert_array_equal(shifts, expected)
    o = wrong.observation
    maker = SampleMaker(o.digitizer_format, [o.digitizer_head(i) for i in range(6)])
    made, straight = maker.packets(chunk, shifts=shifts), maker.packets(plain)
    # A SPEAD heap's number is at bytes 8 to 15, which follows the time stamp at 40 to 47; nothing else is changed.
    _, inputs, where = np.nonzero(made != straight)
    assert set(inputs) == {2, 3} and set(where) <= {*range(8, 16), *range(40, 48)}
    stamps = made[:, 2, 40:48].copy().view(">u8")[:, 0].astype(np.int64) & ((1 << 48) - 1)
    np.testing.assert_array_equal(stamps, HEAP * np.arange(packets) + expected[2])


def test_a_burst_lasts_from_its_start_to_its_stop():
    burst = f'frequency = "1.4017 GHz", level = 3.0, {AT}, stop = "{5000 * 125} ns"'
    wrong, right = pair(rfi=burst)
    made, plain = wrong.voltages(0, 8192), right.voltages(0, 8192)
    np.testing.assert_array_equal(made[:, :START], plain[:, :START])
    np.testing.assert_array_equal(made[:, 5000:], plain[:, 5000:])
    assert np.all(np.std(made[:, START:5000] - plain[:, START:5000], axis=1) > 50)


@pytest.mark.parametrize("complex_samples", [False, True])
def test_interference_fills_its_bandwidth_and_no_more(complex_samples):
    width, n = 200e3, 1 << 17
    rfi = f'frequency = "1.4017 GHz", level = 2.0, bandwidth = "{width:.0f} Hz"'
    wrong, right = pair(rfi=rfi, complex_samples=complex_samples)
    added = (wrong.voltages(0, n) - right.voltages(0, n))[0]
    power = np.abs(np.fft.fft(added * np.hanning(n))) ** 2
    zero = 1.4e9 if not complex_samples else float(wrong.observation.sky_frequencies[32])
    sky = zero + np.fft.fftfreq(n, 1 / RATE)
    if not complex_samples:
        power, sky = power[: n // 2], sky[: n // 2]
    inside = np.abs(sky - 1.4017e9) < width / 2 + 1e3
    assert power[inside].sum() > 0.9999 * power.sum()
    occupied = sky[power > 0.05 * power.max()]
    assert np.ptp(occupied) > 0.5 * width
    parts = added.view(np.float32)
    gain = abs(wrong.receivers.gain[0])
    np.testing.assert_allclose(np.sqrt(np.mean(parts**2)), 2 * 40 * gain, rtol=0.15)


def test_chunks_do_not_matter_with_everything_wrong():
    everything = [
        'kind = "dead", input = "A0 x", start = "0.3 ms"',
        f'kind = "swapped", input = "A1", {AT}, stop = "1 ms"',
        'kind = "exchanged", input = ["A2", "A0"], start = "0.5 ms"',
        'kind = "delay", input = ["A1 x", "A2"], delay = "-33.3 ns", start = "0.2 ms", stop = "0.9 ms"',
        'kind = "noise", input = "A2 y", start = "0.4 ms"',
        'kind = "clipping", input = "A1", start = "0.7 ms", factor = 3.0',
    ]
    tone = 'frequency = "1.4017 GHz", level = 0.5, bandwidth = "10 kHz", start = "0.1 ms"'
    simulator, _ = pair(everything, rfi=tone, complex_samples=True)
    whole = simulator.voltages(0, 12000)
    again = VoltageSimulator(simulator.observation)
    cuts = [0, 100, 3001, 3002, 9999, 12000]
    parts = [again.voltages(a, b - a) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


MISTAKES = [
    ('kind = "broken"', "defects[0].kind", "dead"),
    ('kind = "dead", input = "A7"', "defects[0].input", "A0, A1"),
    ('kind = "dead", input = "A1 r"', "defects[0].input", "did you mean"),
    ('kind = "dead", input = ["A1", "A1"]', "defects[0]", "once"),
    ('kind = "dead", delay = "1 ns"', "defects[0]", "has no delay"),
    ('kind = "dead", start = "2 s", stop = "1 s"', "defects[0]", "after start"),
    ('kind = "delay"', "defects[0]", "needs delay"),
    ('kind = "delay", delay = "2 s"', "defects[0].delay", "1 ms"),
    ('kind = "delay", delay = 3', "defects[0].delay", "unit"),
    ('kind = "loss", loss = 1.5', "defects[0].loss", "1"),
    ('kind = "loss", loss = nan', "defects[0].loss", ""),
    ('kind = "clipping", factor = 0.5', "defects[0].factor", "1"),
    ('kind = "jump", samples = 700', "defects[0].samples", "512"),
    ('kind = "jump", samples = 0', "defects[0]", "remove"),
    ('kind = "swapped", input = "A1 x"', "defects[0].input", 'write "A1"'),
    ('kind = "exchanged", input = "A1"', "defects[0]", "pairs"),
    ('kind = "dead", input = "A1" }, { kind = "dead", input = "A1 y", start = "1 s"', "defects[1]", "join"),
]


@pytest.mark.parametrize(("text", "key", "remedy"), MISTAKES)
def test_mistakes_are_named(text, key, remedy):
    with pytest.raises(ConfigError) as caught:
        observation(simulate=f"defects = [{{ {text} }}]")
    problems = caught.value.problems
    assert any(p.key.startswith(f"simulate.{key}") and remedy in p.remedy for p in problems), problems


def test_what_is_replayed_has_no_times():
    with pytest.raises(ConfigError, match="replay"):
        observation(simulate='replay = "1 s"\ndefects = [{ kind = "dead", start = "1 s" }]')


def test_defects_one_after_the_other():
    o = observation(simulate='defects = [{ kind = "dead", stop = "1 s" }, { kind = "dead", start = "1 s" }]')
    assert [d.start for d in o.simulate.defects] == [0, Fraction(1)]


def test_recorded_packets_are_those_that_were_not_lost(tmp_path):
    """A capture holds as many packets as were there."""
    import typer

    from ryle.cli.simulate import simulate
    from ryle.simulate.defects import Defects

    text = example("troubled").read_text().replace('duration = "119.9 s"', 'duration = "0.25 s"')
    file = tmp_path / "short.toml"
    file.write_text(text.replace("loss = 0.01 ", "loss = 0.3 "))
    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, [str(file), "--pcap", str(tmp_path / "short.pcap")])
    assert result.exit_code == 0, result.output
    assert f"ryle correlate {file} --input {tmp_path / 'short.pcap'}" in result.stderr
    o = load(file)
    packets = o.end_sample // o.digitizer.heap_samples
    present = np.ones((o.n_inputs, packets), np.uint8)
    Defects(o).lose(list(range(o.n_inputs)), 0, present)
    assert 0 < (present == 0).sum() < 0.5 * present[2:4].size
    data = (tmp_path / "short.pcap").read_bytes()
    at, found = 24, 0
    while at < len(data):
        at, found = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little"), found + 1
    assert found == int(present.sum())
