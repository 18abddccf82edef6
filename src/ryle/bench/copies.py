"""Copy variants through DPDK, as ``bench/dpdk.py`` of the source tree measures them in a process of its own.

DPDK takes over cores and huge pages for as long as a process lives, so the experiments with sockets and those with DPDK
are not in one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "bench" / "dpdk.py"
_LIMIT = 600.0  # s


@dataclass(frozen=True, slots=True)
class Variant:
    """What one variant reached.

    Parameters
    ----------
    name : str
        How many copies, over which device.
    gbps : float, optional
        Payload; None if it could not be measured.
    note : str
        Against what it stands, or why it was not measured.
    """

    name: str
    gbps: float | None
    note: str


def copy_variants(seconds: float) -> list[Variant]:
    """Measure 1-copy and 0-copy receiving over virtual devices.

    Parameters
    ----------
    seconds : float
        Of each measurement.
    """
    if not SCRIPT.exists():
        return [Variant("1-copy and 0-copy through DPDK", None, "not done: needs bench/dpdk.py of a source tree")]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dpdk.json"
        command = [sys.executable, str(SCRIPT), "--json", str(path), "--seconds", f"{seconds:g}"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return [Variant("1-copy and 0-copy through DPDK", None, f"not done: longer than {_LIMIT:g} s")]
        if ended.returncode or not path.exists():
            last = ended.stderr.strip().splitlines()[-1:] or ["no reason given"]
            return [Variant("1-copy and 0-copy through DPDK", None, f"not done: {last[0]}")]
        return _variants(json.loads(path.read_text()))


def _variants(whole: dict[str, dict[str, float] | list[dict[str, object]]]) -> list[Variant]:
    about, results = whole["about"], whole["results"]
    assert isinstance(about, dict) and isinstance(results, list)
    bits = float(about["payload_bytes"]) * 8e-9
    found = []
    for result in results:
        name = str(result["variant"])
        if "lossless_gbps" in result:
            note = f"lossless for {result['confirmed_seconds']} s from another process"
            found.append(Variant(name, float(str(result["lossless_gbps"])), note))
            continue
        rate = result["packets_per_second"]
        assert isinstance(rate, dict)
        median, low, high = (rate[key] * 1e-6 for key in ("median", "low", "high"))
        note = f"{median:.2f} M packets/s on one core, quartiles {low:.2f} to {high:.2f}"
        ratio = result.get("ratio")
        if isinstance(ratio, dict):
            note += ", " + ", ".join(
                f"{value:.2f} of memcpy {order.replace('_', ' ')}" for order, value in ratio.items()
            )
        found.append(Variant(name, rate["median"] * bits, note))
    return found
