"""From chunks to windows: every sample where it belongs, gaps marked, jumps followed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ryle.chunk import SampleChunk
from ryle.receive.windows import SampleBuffer, WindowShape

PACKET = 8  # samples, one byte each


def samples(first, packets, present=None, inputs=2, epoch=0):
    """Packets whose bytes tell input, packet number and epoch; what is missing holds rubbish."""
    there = np.ones((inputs, packets), np.uint8) if present is None else np.asarray(present, np.uint8)
    number = first + np.arange(packets)[:, np.newaxis] * np.ones((1, PACKET), int)
    data = (number[np.newaxis] * 3 + 101 * np.arange(inputs)[:, np.newaxis, np.newaxis] + 57 * epoch) % 251
    data = np.where(there[..., np.newaxis], data, 255).astype(np.uint8)
    return SampleChunk(first * PACKET, data, there, PACKET)


def check_window(window, shape, first, sent):
    """`window` covers the batch's span and holds just what of it was `sent`: {packet: (input,) presence and bytes}."""
    low, high = shape.span(first)
    window = window.gathered()
    assert window.timestamp <= low and window.end >= high
    assert low - window.timestamp < PACKET and window.end - high < PACKET
    assert window.timestamp % PACKET == 0
    for column in range(window.data.shape[1]):
        packet = window.timestamp // PACKET + column
        for i in range(window.inputs):
            wanted = sent.get((i, packet))
            assert window.present[i, column] == (wanted is not None)
            if wanted is not None:
                assert np.array_equal(window.data[i, column], wanted)


def record(sent, chunk):
    for i, column in zip(*np.nonzero(chunk.present), strict=True):
        sent[int(i), chunk.timestamp // PACKET + int(column)] = chunk.data[i, column].copy()


def batches_touched(shape, first, end):
    """First spectra of the batches that can read any of the samples [first, end)."""
    number, found = 0, []
    while shape.span(number)[0] < end:
        if shape.span(number)[1] > first:
            found.append(number)
        number += shape.batch
    return found


shapes = st.builds(
    WindowShape,
    step=st.sampled_from([4, 6, 16]),
    window=st.sampled_from([4, 16, 48]),
    max_delay=st.integers(0, 40),
    batch=st.sampled_from([1, 4, 8]),
)


@settings(max_examples=200, deadline=None)
@given(shapes, st.integers(0, 50), st.lists(st.integers(1, 12), min_size=1, max_size=12), st.data())
def test_any_chunking_gives_the_same_windows(shape, first, lengths, data):
    buffer, sent, got, place = SampleBuffer(shape), {}, [], first
    for length in lengths:
        present = data.draw(st.lists(st.integers(0, 1), min_size=2 * length, max_size=2 * length))
        chunk = samples(place, length, np.reshape(present, (2, length)))
        record(sent, chunk)
        for given_first, window in buffer.push(chunk):
            assert shape.span(given_first)[1] <= chunk.end  # complete, and given at once
            got.append((given_first, window))
        following = got[-1][0] + shape.batch if got else batches_touched(shape, first * PACKET, chunk.end + 1000)[0]
        assert shape.span(following)[1] > chunk.end
        place += length
    got += buffer.flush()
    assert [f for f, _ in got] == batches_touched(shape, first * PACKET, place * PACKET)
    for given_first, window in got:
        check_window(window, shape, given_first, sent)
    assert not list(buffer.flush())


@settings(max_examples=200, deadline=None)
@given(shapes, st.lists(st.tuples(st.integers(0, 300), st.integers(1, 12)), min_size=1, max_size=8))
def test_gaps(shape, runs):
    """Whatever the gaps, each batch that a sample can contribute to comes once, in order, with all that was sent."""
    buffer, sent, got, place, stretches = SampleBuffer(shape), {}, [], 0, []
    for gap, length in runs:
        place += gap
        chunk = samples(place, length)
        record(sent, chunk)
        got += buffer.push(chunk)
        stretches.append((chunk.timestamp, chunk.end))
        place += length
    got += buffer.flush()
    firsts = [f for f, _ in got]
    assert firsts == sorted(set(firsts))
    wanted = {f for a, b in stretches for f in batches_touched(shape, a, b)}
    assert wanted <= set(firsts)
    for first, window in got:
        check_window(window, shape, first, sent)


def test_a_long_gap_is_jumped_over():
    shape = WindowShape(step=16, window=64, max_delay=5, batch=4)
    buffer = SampleBuffer(shape)
    list(buffer.push(samples(0, 40)))
    far = 10**9
    got = [*buffer.push(samples(far, 40)), *buffer.flush()]
    assert len(got) < 20
    assert {f for f, w in got if not w.present.any()} == set()


def test_restart_with_earlier_samples():
    """A digitizer that starts again, from an earlier count, continues nothing."""
    shape = WindowShape(step=16, window=64, max_delay=5, batch=4)
    buffer, before, after, again = SampleBuffer(shape), {}, {}, []
    chunk = samples(1000, 40)
    record(before, chunk)
    first = list(buffer.push(chunk))
    for place in (10, 50):
        chunk = samples(place, 40, epoch=1)
        record(after, chunk)
        again += buffer.push(chunk)
    again += buffer.flush()
    split = next(k for k, (f, _) in enumerate(again) if f < 400)
    assert [f for f, _ in first + again[:split]] == batches_touched(shape, 8000, 8320)
    assert [f for f, _ in again[split:]] == batches_touched(shape, 80, 720)
    for f, w in first + again[:split]:
        check_window(w, shape, f, before)
    for f, w in again[split:]:
        check_window(w, shape, f, after)


def test_windows_are_views_of_chunks_that_are_still_needed():
    """Nothing is copied; what a window reads is never of a chunk that was said not to be needed any more."""
    shape = WindowShape(step=16, window=64, max_delay=5, batch=4)
    buffer, sent, given = SampleBuffer(shape), {}, []
    for k in range(40):
        chunk = samples(7 * k, 7)
        record(sent, chunk)
        given.append(chunk)
        for first, window in buffer.push(chunk):
            for piece in window.pieces:
                shared = any(np.shares_memory(piece.data, c.data) for c in given)
                assert shared or not piece.present.any()  # before the first chunk there is nothing
            check_window(window, shape, first, sent)
        for old in [c for c in given if c.end <= buffer.needed]:
            old.data[...] = 255  # its memory is written to again
        given = [c for c in given if c.end > buffer.needed]
        assert len(given) < 8
    assert given


def test_old_chunks_are_let_go():
    shape = WindowShape(step=16, window=64, max_delay=5, batch=4)
    buffer = SampleBuffer(shape)
    for k in range(200):
        list(buffer.push(samples(4 * k, 4)))
    assert len(buffer._chunks) * 4 * PACKET < 4 * (shape.span(0)[1] - shape.span(0)[0])
