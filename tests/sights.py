"""Looks at a correlator, written by hand: what a watcher could have seen."""

from dataclasses import replace

from ryle.watch.sight import STAGES, Alarm, EngineSight, InputSight, Sight

ACCOUNT = {
    "name": "f0",
    "unit": "packets",
    "datagrams": 1017,
    "placed": 990,
    "late": 4,
    "duplicate": 3,
    "malformed": 2,
    "foreign": 18,
    "expected": 1000,
    "missing": 10,
    "kernel_drops": None,
    "ring_full": 7,
}
KINDS = {
    "received": ("counter", "packets", "digitizer packets that were placed"),
    "bytes": ("counter", "B", "payload of these packets"),
    "account": ("gauge", "", "what became of every packet"),
    "ring": ("gauge", "blocks", "of the entrance's ring"),
    "ring_full": ("counter", "packets", "that found no memory free"),
    "resyncs": ("counter", "", "times that time stamps jumped"),
    "position": ("gauge", "s", "signal that has been channelized"),
    "inputs": ("gauge", "", "antenna and polarization of each input"),
    "first_input": ("gauge", "", "number in the array of the first input"),
    "input_rms": ("gauge", "ADC steps", "of each input's samples"),
    "gains_set": ("counter", "", "changes of gains"),
    "delays_set": ("counter", "", "changes of delays"),
    "late_blocks": ("counter", "blocks", "of integrations that were given already"),
    "early_blocks": ("counter", "blocks", "before the first whole integration"),
    "saturated": ("gauge", "", "share of spectra's values that saturated"),
    "cpu": ("counter", "ms", "processor time that it has used"),
    "cores": ("gauge", "", "that it may run on"),
    "memory": ("gauge", "B", "that it has in use"),
    "clock_kept": ("gauge", "", "1 if something keeps its host's clock"),
    "clock_offset": ("gauge", "s", "by which that is corrected"),
    "clock_error": ("gauge", "s", "that it may be off by"),
    "gpu_busy": ("gauge", "%", "time lately in which a kernel ran"),
    "gpu_power": ("gauge", "W", "that each draws"),
    "gpu_memory": ("gauge", "B", "in use on each"),
    "gpu_memory_size": ("gauge", "B", "that each has"),
    "late_controls": ("counter", "", "changes refused as the time for them had passed"),
}


def engine(role="f", index=0, **values):
    """Give an engine that runs; its account is `ACCOUNT`."""
    figures = {
        "received": 990,
        "bytes": 990 * 4096,
        "account": ACCOUNT,
        "ring": {"open": 2, "ready": 1, "taken": 3, "free": 10},
        "ring_full": 7,
        "resyncs": 1,
        "position": 12.5,
        "first_input": 2 * index,
        "inputs": ["A 1 x", "A 1 y"],
        "input_rms": [10.0, None],
        "late_controls": 0,
        "cpu": 61_500,
        "cores": 4,
        "memory": 3 << 30,
        "clock_kept": 1.0,
        "clock_offset": -2e-5,
        "clock_error": 0.003,
        "gpu_busy": {"1": 37.0},
        "gpu_power": {"1": 212.5},
        "gpu_memory": {"1": 12e9},
        "gpu_memory_size": {"1": 80e9},
        "gains_set": 4,
        "delays_set": 0,
        "late_blocks": 0,
        "early_blocks": 0,
        "saturated": 0.0,
    }
    return EngineSight(f"{role}{index}", role, index, 4242, True, "running", 1000.0, figures | values, kinds=KINDS)


def look(*engines, **fields):
    """Give a look at engines (`engine()` if there are none) at time 1002.5 s."""
    inputs = (
        InputSight(0, "A 1", "x", 10.0, -12.25, 0.002, 0.0, dict.fromkeys(STAGES) | {"ring": 0.99, "F": 0.98}, 1.5e-9),
        InputSight(1, "A 1", "y"),
    )
    return replace(
        Sight(1002.5, "night 3", engines=engines or (engine(),), inputs=inputs, disk_free=2e12),
        **fields,
    )


def alarm(kind="dead", subject="A 1 y", severity="error", ended=None):
    """Give an alarm."""
    return Alarm(kind, subject, severity, "it is wrong", "mend it", 990.0, ended)
