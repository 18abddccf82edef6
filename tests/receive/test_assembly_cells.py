"""Where a packet's bytes and header fields go in a chunk: placing by head, notes, and what a plan must not ask for."""

import numpy as np
import pytest

import fresh
from assembled import BYTES, check_sums, packet, payload, plan, stream
from ryle.receive.assembly import Assembler, Part, Placing, heap_parts


def test_heads_lie_where_their_offsets_say():
    """Rows [packet][antenna, in an order of its own][payload, some bytes of nothing]."""
    rng, heads, packets, room = fresh.rng(), 5, 7, BYTES + 16
    seat = rng.permutation(heads)
    placing = Placing((packets, heads, room), (seat * room).tolist(), heads * room)
    p = plan(heads, packets=packets, placing=placing, chunks=3)
    assembler = Assembler(p)
    for turn in range(3):  # over what the turns before left
        numbers = range(turn * packets, (turn + 1) * packets)
        sent = [(h, n) for h in range(heads) for n in numbers if turn == 0 or rng.random() < 0.6]
        assembler.take([packet(*sent[i]) for i in rng.permutation(len(sent))])
        assembler.flush()
        with assembler.next(0) as chunk:
            assert chunk.data.shape == (packets, heads, room)
            for head, i in np.ndindex(heads, packets):
                there = (head, numbers[i]) in sent
                want = payload(head, numbers[i]) if there else bytes(BYTES)
                assert chunk.data[i, seat[head]].tobytes() == want + bytes(16)
                assert chunk.present[head, i] == there


def test_heads_that_do_not_follow_one_another_may_share_a_stretch():
    """Two heads that take turns packet by packet, the second first."""
    placing = Placing((4, 2, BYTES), (BYTES, 0), 2 * BYTES)
    assembler = Assembler(plan(2, packets=4, placing=placing))
    assembler.take(stream(2, range(4)))
    assembler.finish()
    (data,) = [c.data.copy() for c in assembler]
    assert all(data[i, 1 - h].tobytes() == payload(h, i) for h in range(2) for i in range(4))


def test_header_fields_are_kept_of_the_first_packet_of_each_cell():
    p = plan(3, packets=8, notes=("ant", "seq"), chunks=2)
    assembler = Assembler(p)
    rng = fresh.rng()
    for turn in range(3):
        cells = [(h, n) for n in range(8 * turn, 8 * turn + 8) for h in range(3) if rng.random() < 0.7 or n % 8 == 7]
        assembler.take([packet(*cell) for cell in cells] + [packet(*cells[0])])  # a duplicate changes nothing
        assembler.flush()
        with assembler.next(0) as chunk:
            assert chunk.notes.shape == (3, 8, 2) and chunk.notes.dtype == np.uint64
            for head, i in np.ndindex(3, 8):
                number = 8 * turn + i
                assert chunk.notes[head, i].tolist() == ([head, number] if (head, number) in cells else [0, 0])
    check_sums(assembler)


def test_chunks_without_notes_have_none():
    assembler = Assembler(plan(2, packets=4))
    assembler.take(stream(2, range(4)))
    assembler.finish()
    assert [c.notes.shape for c in assembler] == [(2, 4, 0)]


def test_heaps_are_cut_as_senders_do():
    assert heap_parts(10, 4, 100) == (Part(0, 4, 100), Part(4, 4, 104), Part(8, 2, 108))
    assert heap_parts(8, 8) == (Part(0, 8, 0),)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"notes": ("sequence",)}, "notes = sequence: .* seq, ant, kind"),
        ({"placing": Placing((4, 4, BYTES), (0,), BYTES)}, "one offset a head"),
        ({"placing": Placing((4, 2, BYTES), (0, 4 * BYTES + 1), BYTES)}, "lie in the chunk"),
        ({"placing": Placing((4, 2, BYTES), (-1, 0), BYTES)}, "lie in the chunk"),
        ({"placing": Placing((8, 2, BYTES), (0, 2 * BYTES - 1), 2 * BYTES)}, "same place"),
        ({"placing": Placing((4, 2, BYTES), (0, BYTES), BYTES - 1)}, "same place"),
        ({"placing": Placing((4, 2, BYTES), (0, BYTES), 2 * BYTES), "order": ("head", "packet")}, "placing exclude"),
        ({"parts": (Part(0, 8, 0), Part(4, 8, 8))}, "do not overlap"),
        ({"parts": (Part(0, 8, 0), Part(8, 8, 4))}, "same place"),
        ({"parts": (Part(0, 8, 0, True),)}, "not optional"),
        ({"parts": (Part(0, 70000, 0),)}, "65535"),
        ({"parts": tuple(Part(16 * i, 8 + i % 2, 16 * i) for i in range(100))}, "equally long"),
        ({"parts": heap_parts(48, 8), "order": ("channel", "packet", "time", "head", "input")}, "reordered"),
    ],
)
def test_plans_that_cannot_be_carried_out_say_why(settings, message):
    with pytest.raises(ValueError, match=message):
        Assembler(plan(2, packets=4, **settings))


def test_packets_of_another_length_than_the_part_are_malformed():
    assembler = Assembler(plan(2, packets=4, parts=(Part(0, BYTES - 8, 0),)))
    assembler.take(stream(2, range(3)))
    counts = check_sums(assembler)
    assert counts.faults["part"] == 6 and counts.placed == 0
