"""A sender or a capture in a process of its own, told what to do by `ryle.bench.traffic`.

The first line on standard input says what it is, each further one asks for something; each is answered by one line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ryle.bench.harness import Answers, emulated_gpu, say, serve
from ryle.config.endpoints import Endpoint
from ryle.engines.capture import Capture, CaptureOptions, To
from ryle.gpu import Gpu, open_gpu
from ryle.receive import dpdk
from ryle.receive.assembly import PORT, Plan, grid
from ryle.receive.sources import Source, Together
from ryle.receive.udp import UdpSource
from ryle.send.dpdk import way_out
from ryle.send.sender import Sender
from ryle.send.sending import Sending
from ryle.store.verify import Filling, PayloadRule
from ryle.wire.description import Format

_MEMIF_PACKETS = 13  # of a ring of shared memory: two to the power of it


def main() -> None:
    """Be a sender or a capture until standard input ends."""
    told = json.loads(sys.stdin.readline())
    if told["priority"]:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(told["priority"]))  # what chrt -f does
    if told["main_cores"]:
        os.sched_setaffinity(0, told["main_cores"])  # threads that receive or send choose theirs
    answers, end = {"send": _sender, "capture": _capture}[sys.argv[1]](told)
    say({"ready": os.getpid()})
    serve(answers)
    end()


# -- a sender ---------------------------------------------------------------------------------------------------------


def _sender(told: dict[str, Any]) -> tuple[Answers, Callable[[], None]]:
    format = Format.load(told["format"])
    running: list[Sender] = []
    way_out = _memif_sender(told, format) if told["memif"] else None

    def send(asked: dict[str, Any]) -> dict[str, Any]:
        sender = Sender(
            Sending(
                to=[Endpoint(host="127.0.0.1", port=told["port"])],
                format=format,
                gbps=asked["gbps"],
                seconds=asked["seconds"],
                packets=asked["packets"],
                start=asked["start"] * format.timestamp.step,
                cores=told["cores"],
                realtime=bool(told["priority"]),
                seed=told["seed"],
            ),
            way_out,
        )
        time.sleep(max(0.0, asked["at"] - time.monotonic()))
        sender.start()
        running[:] = [sender]
        return {}

    def progress(asked: dict[str, Any]) -> dict[str, Any]:
        sender = running[0]
        ended = not sender.running
        if ended:
            sender.join()
        p = sender.progress()
        return {
            "running": not ended,
            "packets": p.packets,
            "seconds": p.seconds,
            "gbps": p.bytes * 8e-9 / max(p.seconds, 1e-9),
            "behind": p.most_behind,
            "busy": p.busy,
            "full": p.full,
        }

    def stop(asked: dict[str, Any]) -> dict[str, Any]:
        running[0].stop()
        return {}

    return {"send": send, "progress": progress, "stop": stop}, lambda: None


# -- a capture --------------------------------------------------------------------------------------------------------


def _capture(told: dict[str, Any]) -> tuple[Answers, Callable[[], None]]:
    format, ports = Format.load(told["format"]), told["ports"]
    fields = {name: 0 for name in format.timestamp.stream}
    step = format.timestamp.step
    plan = Plan(
        format,
        grid(format, **fields, **{PORT: range(len(ports))}),
        told["packets"],
        window=64 * step,
        skew=told["skew"] * step if len(ports) > 1 else 0,
        linger=told["linger"],
        by_port=True,
    )
    plan = Plan(**{name: getattr(plan, name) for name in plan.__slots__} | {"chunks": plan.open_most + told["spare"]})
    options = CaptureOptions(
        to=To.GPU if told["gpu"] is not None else To.NULL,
        gpus=(told["gpu"] or 0,),
        warm_up=0.0,
        rule=PayloadRule.of(plan, Filling.RANDOM, told["seed"]) if told["verify"] else None,
        verify=told["verify"],
    )

    def make_source(sink: Any) -> Source:
        if told["memif"]:
            return _memif_source(told, plan, sink)
        return UdpSource(
            sink,
            [Endpoint(host="127.0.0.1", port=port) for port in ports],
            threads=told["threads"],
            cores=told["cores"],
            buffer=told["buffer"],
            gro=told["gro"],
        )

    capture = Capture(plan, options, make_source, (), _emulated if told["emulated"] else open_gpu)
    waiting, failed = threading.Event(), []
    capture.state = lambda state: waiting.set() if state == "waiting" else None

    def run() -> None:
        try:
            capture.run(None)
        except BaseException as error:
            failed.append(f"{type(error).__name__}: {error}")
        waiting.set()

    thread = threading.Thread(target=run, name="capture")
    thread.start()
    waiting.wait()

    def figures(asked: dict[str, Any]) -> dict[str, Any]:
        if failed:
            raise RuntimeError(failed[0])
        return capture.metrics.values() | {"payload_bytes": plan.payload_bytes}

    def end() -> None:
        capture.stop()
        thread.join()

    figures({})
    return {"figures": figures}, end


# -- shared memory between them (net_memif), in place of sockets ------------------------------------------------------


def _memif(role: str, told: dict[str, Any], port: int, pool: dpdk.Pool) -> dpdk.Device:
    name = f"net_memif{port - min(told['ports'])},role={role},id=0,socket-abstract=yes"
    return dpdk.Device(f"{name},socket=@ryle-{told['memif']}-{port},bsize=9216,rsize={_MEMIF_PACKETS}", [pool])


def _memif_pool(packet_bytes: int, header_bytes: int, buffers: int) -> dpdk.Pool:
    room, samples = packet_bytes + dpdk.HEADERS + 64, dpdk.HEADERS + header_bytes
    pool = dpdk.Pool(buffers, room, memory="host", payload_at=samples)
    assert pool.memory is not None
    pool.memory[:] = 1  # touched, once
    return pool


def _memif_sender(told: dict[str, Any], format: Format) -> Callable[..., Any]:
    dpdk.start(dpdk.DpdkConfig())
    packet_bytes = Plan(format, grid(format, **dict.fromkeys(format.timestamp.stream, 0)), 1).packet_bytes
    pool = _memif_pool(packet_bytes, format.header.bytes, (1 << _MEMIF_PACKETS) + 4096)
    device = _memif("client", told | {"ports": [told["port"]]}, told["port"], pool)
    device.begin()
    while not device.up:
        time.sleep(0.01)
    return way_out(device, pool)


def _memif_source(told: dict[str, Any], plan: Plan, sink: Any) -> Source:
    dpdk.start(dpdk.DpdkConfig())
    sources = []
    for i, port in enumerate(told["ports"]):
        pool = _memif_pool(plan.packet_bytes, plan.format.header.bytes, dpdk.needed(4096))
        cores = [told["cores"][i % len(told["cores"])]] if told["cores"] else []
        sources.append(dpdk.DpdkSource(sink, _memif("server", told, port, pool), told["ports"], cores=cores))
    return Together(sources)


def _emulated(ordinal: int) -> Gpu:
    return emulated_gpu()


if __name__ == "__main__":
    main()
