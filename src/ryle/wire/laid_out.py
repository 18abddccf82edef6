"""Formats with items as senders see them: every item in its usual place.

What is so written is valid in the format it was made of; a receiver must take items in any order.
"""

from __future__ import annotations

from collections.abc import Collection

from ryle.wire.description import Format, terms
from ryle.wire.tables import ITEM_BYTES, HeaderField, Total


def laid_out(format: Format, fields: Collection[str] = ()) -> Format:
    """Give an item's fields a place in the header.

    Of heaps of one packet nothing is left but what the header says of them; of heaps of several, the fields of
    ``heap.offset`` and ``heap.bytes`` are for the sender to fill in. Heaps are as long as their samples and the first
    of the trailers.

    Parameters
    ----------
    format : Format
        Description; itself if it has no items.
    fields : collection of str
        Fields of optional items that packets are to have.

    Raises
    ------
    ConfigError
        If a parameter lacks.
    ValueError
        If what is known of heaps is said by more than one field.
    """
    format.usable()
    if format.header.items is None:
        return format
    heap = format.heap
    known: dict[str, int] = {}
    if heap is not None:
        if heap.length is not None:
            known |= _of_one(format, heap.length, format.heap_bytes[0])
        if heap.packets == "one":
            known |= _of_one(format, heap.bytes, format.heap_bytes[0]) | _of_one(format, heap.offset, 0)
    items = [i for i, of in format.items.items() if any(f.name in fields or not f.optional for f in of)]
    known[format.header.items] = len(items)
    placed: list[HeaderField] = []
    for field in format.header.field:
        if field.item is not None and field.item not in items:
            continue
        update: dict[str, object] = {"default": None, "item": None}
        if field.name in known:
            update |= {"equals": known[field.name], "min": None, "max": None}
        if field.item is not None:
            at = format.header.bytes + ITEM_BYTES * items.index(field.item)
            update |= {"byte": at + 2, "bytes": ITEM_BYTES - 2, "endian": "big"}
            if all(other.name != f"item_{field.item:04x}" for other in placed):
                key = f"item_{field.item:04x}"
                placed.append(HeaderField(name=key, byte=at, bytes=2, endian="big", means="key", equals=field.item))
        placed.append(field.model_copy(update=update))
    size = format.header.bytes + ITEM_BYTES * len(items)
    header = format.header.model_copy(update={"bytes": size, "items": None, "field": placed})
    payload = format.payload.model_copy(update={"trailer_bytes": format.payload.trailer_bytes[:1]})
    left = None if heap is None or heap.packets == "one" else heap
    return format.model_copy(update={"header": header, "payload": payload, "heap": left})


def _of_one(format: Format, total: Total, number: int) -> dict[str, int]:
    """Give the field of a sum of one field that is a number."""
    factors = terms(total)
    name, factor = next(iter(factors.items()))
    value, left = divmod(number - total.get("add", 0), factor)
    if len(factors) > 1 or left or value < 0:
        raise ValueError(f"{format.name}: {number} B are not said by {', '.join(factors)} alone")
    return {name: value}
