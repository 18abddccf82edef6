"""The generator's samples and packets: an oracle written another way, and that noise is noise."""

import random

import numpy as np

import fresh
from ryle.fpga.pattern import OFF, Pattern, counter_packet, digitizer_packet
from ryle.wire import spead

M = (1 << 32) - 1


def sample(index, tone_step, tone_shift, noise_shift, seed):
    """One sample by plain integers."""

    def signed(byte):
        return byte - 256 if byte > 127 else byte

    k = ((index % 2**32) >> 2) ^ seed
    k = (~k + (k << 15)) & M
    k ^= k >> 12
    k = (k + (k << 2)) & M
    k ^= k >> 4
    k = k * 2057 & M
    k ^= k >> 16
    k = k * 8193 & M
    k ^= k >> 15
    noise = signed(k >> 8 * (index % 4) & 255) >> noise_shift if noise_shift < OFF else 0
    phase = index * tone_step % 256
    tone = round(127 * np.cos(2 * np.pi * phase / 256))
    tone = tone >> tone_shift if tone_shift < OFF else 0
    return max(-127, min(127, tone + noise))


def test_samples_are_those_of_plain_integers():
    rng = random.Random(fresh.seed())
    for _ in range(40):
        pattern = Pattern(rng.randrange(256), rng.randrange(9), rng.randrange(9), rng.getrandbits(32))
        first = rng.choice([0, -5, rng.getrandbits(32), 2**32 - 3, rng.getrandbits(47)])
        wanted = [
            sample(first + i, pattern.tone_step, pattern.tone_shift, pattern.noise_shift, pattern.seed)
            for i in range(30)
        ]
        assert pattern.samples(first, 30).tolist() == wanted, pattern


def test_noise_is_white():
    x = Pattern(noise_shift=0, seed=fresh.seed()).samples(fresh.seed(), 1 << 18).astype(float)
    spectrum = (abs(np.fft.rfft(x.reshape(-1, 4096))) ** 2).mean(axis=0)[1:-1] / x.var() / 4096
    # 64 spectra: each channel's mean has a standard deviation of 1/8, and is as many exponential variables'. That one of
    # 2047 is 8 of those above has a chance of 1e-5, 11 of those one of 1e-10.
    assert abs(spectrum - 1).max() < 1.375
    assert abs(spectrum.std() * 8 - 1) < 0.2
    assert abs(x.mean()) < 1


def test_delay_moves_the_noise_and_nothing_else():
    p = Pattern(tone_step=9, tone_shift=1, noise_shift=1, seed=3)
    _, _, undelayed = spead.read(digitizer_packet(4096, 7, 4096 + 72, p))
    _, _, delayed = spead.read(digitizer_packet(4096, 7, 4096 + 72, p, 100))
    assert bytes(delayed[100:]) == bytes(undelayed[:-100])


def test_packets_read_as_the_formats_say():
    immediates, addresses, payload = spead.read(digitizer_packet(1 << 40, 300, 1072, Pattern(seed=1)))
    assert (immediates[spead.TIMESTAMP], immediates[spead.DIGITISER_ID], len(payload)) == (1 << 40, 300, 1000)
    assert addresses == {spead.ADC_SAMPLES: 0}
    packet = counter_packet(2**64 + 254, 13)
    assert packet == bytes([0] * 7 + [254, 254, 255, 0, 1, 2])
    assert counter_packet(1, 4) == bytes(4)
