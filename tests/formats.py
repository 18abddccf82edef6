"""Formats of packets as TOML, in sizes for tests. Imports nothing of Ryle: tests of what an operator has use it, too."""

import json


def toml(value):
    """Write a value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return json.dumps(value)


def text(description):
    """Write a description, given as tables, as a file's text."""
    return "\n".join(f"{key} = {toml(value)}" for key, value in description.items()) + "\n"


def description(fields, size, placement, *, header=None, stream=None, unit="spectra", count=None, step=None, **sample):
    """Describe packets, of somebody's F-engines for example, as text.

    Parameters
    ----------
    fields : dict of dict
        Place of each header field; the first one is the counter.
    size : dict of int
        Length of each axis of the payload, in order.
    placement : dict of dict
        What each axis begins with, from which fields.
    header : int, optional
        Bytes of it; as many as its fields need if absent.
    stream : list of str, optional
        Fields that tell streams apart; all but the counter if absent.
    unit : str
        Of time.
    count, step : int, optional
        Units of time of a count, and of a packet; as many as a packet's, and `size`'s ``time``, if absent.
    **sample
        What is unlike 4-bit complex numbers in two's complement.
    """
    counter, *others = fields
    step = step or size["time"]
    return text(
        {
            "title": "test",
            "source": "tests",
            "header": {
                "bytes": header or max(f["byte"] + f["bytes"] for f in fields.values()),
                "field": [{"name": name, "means": name} | place for name, place in fields.items()],
            },
            "payload": {"order": list(size), "size": size},
            "sample": {"bits": 4, "complex": True, "code": "twos_complement"} | sample,
            "timestamp": {
                "unit": unit,
                "count": {counter: count or step},
                "step": step,
                "stream": others if stream is None else stream,
            },
            "placement": placement,
        }
    )


def word(count="count"):
    """Give the fields of a header of 8 bytes: a counter of 48 bits, then sender and channel group, a byte each."""
    names = {count: "63:16", "fid": "15:8", "xid": "7:0"}
    return {name: {"byte": 0, "bytes": 8, "bits": bits} for name, bits in names.items()}
