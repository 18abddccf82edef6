"""FX on a GPU behind DPDK, without a network interface: ``python -m ryle.bench.dpdk_gpu [--json FILE] [--emulated]``.

Headers are made at a rate and payloads lie in the pools (`ryle.bench.dpdk_flow`): all is measured but the writing by
an interface. Each case is a process with an engine of its own, and is to lose nothing from the first packet to the
last. Where payloads are read in place, its first integrations are compared, bit for bit, with those of the same
samples without packets.

pointers  copies = 0 at some rates, the first of them for a minute
beside    the same beside a thread that copies from the host to the same GPU as fast as it can, in pieces of 8 and of
          256 MiB; tables of addresses come by threads of the GPU, as they do, or by the copy engine, as they did
host      copies = "host-table", the GPU reads over the bus; and copies = 2, a core copies
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ryle.bench.dpdk_flow import Asked, Flow
from ryle.bench.harness import Child, emulated_gpu, say, serve
from ryle.bench.results import computer
from ryle.bench.small_copies import CopyBeside
from ryle.engines import gpus
from ryle.engines.places import settle
from ryle.gpu import fetch, open_gpu
from ryle.receive import dpdk
from ryle.version import commit

PARTS = ("pointers", "beside", "host")
_MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """What is measured.

    Parameters
    ----------
    part : str
        Of `PARTS`.
    asked : Asked
        What flows.
    seconds : float
        How long.
    beside : int
        Bytes of pieces that are copied to the GPU meanwhile; 0: nothing is.
    tables : "threads" or "engine"
        What brings tables of addresses to the GPU.
    """

    part: str
    asked: Asked
    seconds: float
    beside: int = 0
    tables: str = "threads"

    @property
    def name(self) -> str:
        """What people call it."""
        beside = f", {self.beside >> 20} MiB pieces beside, tables by {self.tables}" if self.beside else ""
        return f"copies = {self.asked.copies}, {self.asked.gbps:g} Gb/s for {self.seconds:g} s{beside}"


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """List what is to be measured."""
    found = sorted(os.sched_getaffinity(0), reverse=True)  # the last ones receive, the rest is for all others
    cores = tuple(found) if len(found) > given.queues else ()
    asked = Asked(0, given.rates[0], queues=given.queues, cores=cores)
    short = min(given.seconds, 10.0)
    if given.emulated:
        asked = replace(
            asked, antennas=2, channels=64, taps=4, batch=256, integration=0.3, skew=5.0, queues=2, cores=(), gbps=0.005
        )
    rates = given.rates if not given.emulated else [asked.gbps]
    for i, rate in enumerate(rates):
        yield Case("pointers", replace(asked, gbps=rate), short if i else given.seconds)
    for piece in (8 * _MIB, 256 * _MIB) if not given.emulated else (_MIB,):
        for tables in ("threads", "engine"):
            yield Case("beside", replace(asked, gbps=rates[0]), short, piece, tables)
    for copies in ("host-table", 2):
        for rate in given.host_rates if not given.emulated else rates:
            yield Case("host", replace(asked, copies=copies, gbps=rate), short)


def child(case: dict[str, Any], emulated: bool) -> None:
    """Be an engine until standard input ends."""
    gpu: Any = emulated_gpu() if emulated else open_gpu()
    if emulated:
        gpus.open_gpu = lambda *_: gpu  # type: ignore[attr-defined]
    if case["tables"] == "engine":
        fetch.MOST = 0
    asked = case["asked"] | {"cores": tuple(case["asked"]["cores"])}
    settle(Asked(**asked).observation(), "fx")
    flow = Flow(Asked(**asked), gpu, case["seconds"])

    def run(_: dict[str, Any]) -> dict[str, Any]:
        with CopyBeside(gpu, case["beside"]) if case["beside"] else contextlib.nullcontext() as beside:
            found = flow.run(2 * case["seconds"] + 60.0)
            found["copied_beside_gbps"] = beside.gbps if beside is not None else 0.0
        if flow.record.tables:
            found["compared"], found["equal"] = flow.equal()
        return found

    pools = flow.source.payload_pools
    say({"buffers": sum(p.buffers for p in pools), "dpdk": dpdk.environment.native().version(), "gpu": gpu.name})
    serve({"run": run})
    flow.close()


def measure(case: Case, emulated: bool) -> dict[str, Any]:
    """Measure a case in a process of its own."""
    words = json.dumps({**asdict(case), "asked": asdict(case.asked)})
    with Child("ryle.bench.dpdk_gpu", "child", words, *(["--emulated"] if emulated else [])) as process:
        about = process.answer()
        process.ask("run")
        return {"name": case.name, **asdict(case), **about, **process.answer()}


def told(found: dict[str, Any]) -> str:
    """Write a result in a line."""
    equal = f", {found['compared']} integrations equal: {found['equal']}" if "compared" in found else ""
    return (
        f"{found['gbps']:.4g} Gb/s, lost {found['lost']} of {found['packets']} (starved {found['starved']}, ring full "
        f"{found['ring_full']}, no buffer {found['no_buffer']}), {found['integrations']} integrations, cores "
        f"{found['cores']:.2f}, queues busy {max(found['queue_busy']):.2f}, beside {found['copied_beside_gbps']:.0f} "
        f"Gb/s, buffers back {found['buffers_back']}{equal}"
    )


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"of {', '.join(PARTS)}; all if absent")
    parser.add_argument("--json", type=Path, help="write results here, after each case")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the first case; others take 10 at most")
    parser.add_argument("--rates", type=float, nargs="+", default=[400, 600, 800], help="Gb/s, of copies = 0")
    parser.add_argument("--host-rates", type=float, nargs="+", default=[100, 200, 300, 400], help="Gb/s, of the others")
    parser.add_argument("--queues", type=int, default=4, help="receiving threads")
    parser.add_argument("--emulated", action="store_true", help="try the program without a GPU (PYTHONPATH=tests)")
    given = parser.parse_args()
    if given.parts[:1] == ["child"]:
        child(json.loads(given.parts[1]), given.emulated)
        return
    if wrong := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(wrong)}; {', '.join(PARTS)} are")
    if (problem := dpdk.dpdk_problem()) is not None:
        parser.error(problem)
    results: list[dict[str, Any]] = []
    about = computer(not given.emulated) | {"commit": commit()}
    wanted: Callable[[str], bool] = lambda part: not given.parts or part in given.parts  # noqa: E731
    for case in cases(given):
        if not wanted(case.part):
            continue
        print(f"{case.part}: {case.name}", flush=True)
        try:
            results.append(measure(case, given.emulated))
            print(f"  {told(results[-1])}", flush=True)
        except RuntimeError as error:  # the process has said why
            results.append({"name": case.name, **asdict(case), "error": str(error)})
            print(f"  {error}", flush=True)
        if given.json:
            given.json.write_text(json.dumps({"about": about, "results": results}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
