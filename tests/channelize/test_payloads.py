"""Samples read where their packets lie give what the same samples in one buffer give, bit for bit."""

import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Delays
from ryle.channelize.payloads import Payloads

SLOT = 48  # bytes between payloads, more than there must be


def scattered(rng, gpu, chunk, pinned=False):
    """The packets of a chunk in slots of one buffer in any order, and the table of where they are."""
    inputs, packets, size = chunk.data.shape
    stride = size + SLOT
    slots = rng.permutation(inputs * packets).reshape(inputs, packets)
    host = rng.integers(0, 256, (inputs * packets, stride), np.uint8)
    host[slots, :size] = chunk.data
    if pinned:
        memory = gpu.pinned(host.shape, np.uint8)
        memory[...] = host
        address = memory.ctypes.data
    else:
        memory = gpu.array(host)
        address = memory.pointer
    table = np.where(chunk.present != 0, address + stride * slots, 0).astype(np.uint64)
    return memory, Payloads(chunk.timestamp, table, chunk.packet_samples)


def compare(cases, form, rng, case, pinned=False):
    tested = cases.form(case.config, form)
    tested.set_gains(case.gains)
    arguments = (case.first, case.spectra, case.delays)
    memory, payloads = scattered(rng, cases.gpu(form), case.chunk, pinned)
    wanted, power = tested.process(case.chunk, *arguments, Blocks()), tested.output_power
    got = tested.process(payloads, *arguments, Blocks())
    assert wanted.valid.any()
    for name in ("data", "valid", "saturated", "input_power", "input_samples"):
        np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name))
    np.testing.assert_array_equal(tested.output_power, power)
    flat, valid = tested.spectra_float(case.chunk, *arguments)
    floats, also_valid = tested.spectra_float(payloads, *arguments)
    np.testing.assert_array_equal(floats, flat)
    np.testing.assert_array_equal(also_valid, valid)
    del memory


@pytest.mark.parametrize(("bits", "complex_input", "taps"), [(10, False, 5), (3, True, 8), (16, False, 2)])
def test_same_bits_as_in_one_buffer(cases, cuda_form, rng, bits, complex_input, taps):
    for packet, loss in ((256, 2), (4096, 1), (128, 0)):
        seed = int(rng.integers(1 << 62))
        print(f"seed {seed}, packets of {packet}")
        case = cases.make(seed, channels=64, bits=bits, complex_input=complex_input, taps=taps, spectra=256, packet=packet,
                          loss=loss)  # fmt: skip
        compare(cases, cuda_form, rng, case)


def test_payloads_in_page_locked_memory_of_the_host(cases, cuda_form, rng):
    if cuda_form != "cuda":
        pytest.skip("the emulated GPU has no memory that it shares with the host")
    compare(cases, cuda_form, rng, cases.make(int(rng.integers(1 << 62)), channels=256, packet=256), pinned=True)


def test_payloads_that_cannot_be_read_in_place_are_refused(cases):
    tested = cases.form(ChannelizerConfig(2, 64, 4, bits=10), "cuda/emulated")

    def refuses(message, addresses, packet_samples=256):
        with pytest.raises(ValueError, match=message):
            tested.process(Payloads(0, addresses, packet_samples), 0, 64, Delays.zero(2, 64), Blocks())

    good = np.full((2, 100), 1 << 20, np.uint64)
    refuses(r"addresses is uint64 \(1, 100\); use uint64 \(input, packet\) with 2 inputs", good[:1])
    refuses("addresses is int64", good.astype(np.int64))
    refuses("multiples of 16 bytes to be read in place; copy these to a SampleChunk", good + np.uint64(8))
    refuses("payloads of 40 bytes", good, 32)
    refuses("less than 4 GiB", np.zeros((2, 1 << 20), np.uint64), 4096)
