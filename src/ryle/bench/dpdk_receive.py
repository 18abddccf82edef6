"""Receive counter packets through DPDK into one set of chunks a GPU, and say every second what came.

    python -m ryle.bench.dpdk_receive --copies 0 --set 0000:41:00.0:17100:2:0 --set 0000:41:00.0:17101:3:1

Each ``--set DEVICE:UDPPORT:CORE[:GPU]`` is one receive queue of a device, the port that is steered to it, the core
whose thread serves it, and the GPU that its payloads go to (with --copies 0: split from their headers, by DMA;
otherwise into page-locked memory). Without a GPU, payloads stay in the host's memory. Packets are of the format
counter_8192 unless --format names another whose streams one port tells apart.
"""

from __future__ import annotations

import argparse
import re
import time
from typing import Any

from ryle.gpu import open_gpu
from ryle.receive import dpdk
from ryle.receive.assembly import PORT, Assembler, Plan, grid
from ryle.wire.description import Format


def main() -> None:
    """Receive, and say what came."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--set", action="append", required=True, dest="sets", metavar="DEVICE:PORT:CORE[:GPU]")
    arguments.add_argument("--copies", type=int, choices=(0, 1), default=1)
    arguments.add_argument("--format", default="counter_8192")
    arguments.add_argument("--packets", type=int, default=8192, help="in a chunk")
    arguments.add_argument("--chunks", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=0.0, help="0: until interrupted")
    arguments.add_argument("--memory", type=int, default=1024, help="MiB for DPDK")
    given = arguments.parse_args()
    sets = []
    for text in given.sets:  # a PCI address has colons of its own, and so may a virtual device's arguments
        match = re.fullmatch(r"(.+?):(\d{4,5}):(\d+)(?::(\d+))?", text)
        if match is None:
            arguments.error(f"--set {text}: write DEVICE:UDPPORT:CORE or DEVICE:UDPPORT:CORE:GPU")
        sets.append((match[1], int(match[2]), int(match[3]), None if match[4] is None else int(match[4])))
    names = list(dict.fromkeys(s[0] for s in sets))
    dpdk.start(dpdk.DpdkConfig(devices=[n for n in names if dpdk.environment.is_pci(n)], memory=given.memory << 20))
    form = Format.load(given.format)
    sources: list[tuple[int, Assembler, dpdk.DpdkSource]] = []
    for name in names:
        mine = [s for s in sets if s[0] == name]
        pools, headers, assemblers = [], [], []
        for _, _, _, number in mine:
            plan = Plan(form, grid(form, **{PORT: 0}), given.packets, chunks=given.chunks, by_port=True,
                        pointers=given.copies == 0, window=given.packets * form.timestamp.step // 2)  # fmt: skip
            gpu = None if number is None else open_gpu(number)
            held = given.packets * given.chunks if given.copies == 0 else 0
            buffers, split = dpdk.needed(held + 4096), given.copies == 0 and gpu is not None
            memory: Any = "host"
            if split and gpu is not None:
                memory = gpu.empty((dpdk.Pool.memory_bytes(buffers, plan.payload_bytes, split=True),), "uint8")
                headers.append(dpdk.Pool(8192, 256))
            room = plan.payload_bytes if split else plan.packet_bytes + 64
            at = 0 if split else dpdk.HEADERS + form.header.bytes
            pools.append(dpdk.Pool(buffers, room, memory=memory, payload_at=at, split=split, page=None if split else 0))
            ring = None
            if gpu is not None and not split:
                ring = gpu.pinned((Assembler.memory_bytes(plan),), "uint8")
            assemblers.append(Assembler(plan, ring))
        device = dpdk.Device(
            name, pools, headers=headers, header_bytes=dpdk.HEADERS + form.header.bytes, descriptors=4096
        )
        how = device.steer({s[1]: queue for queue, s in enumerate(mine)})
        print(f"{name}: {device.driver}, {device.address}, {len(mine)} queues, steering: {how}", flush=True)
        for queue, (s, assembler) in enumerate(zip(mine, assemblers, strict=True)):
            source = dpdk.DpdkSource(assembler, device, [s[1]], queues=[queue], cores=[s[2]])
            sources.append((s[1], assembler, source))
            source.start()
    began, told, before = time.monotonic(), time.monotonic(), [0] * len(sources)
    try:
        while not given.seconds or time.monotonic() < began + given.seconds:
            for _, assembler, _ in sources:
                while (chunk := assembler.next(0.01)) is not None:
                    chunk.release()
            if time.monotonic() < told + 1:
                continue
            elapsed, told = time.monotonic() - told, time.monotonic()
            for i, (port, assembler, source) in enumerate(sources):
                c, q = assembler.counts(), source.counts()[0]
                rate = (c.placed - before[i]) * assembler.plan.payload_bytes * 8e-9 / elapsed
                before[i] = c.placed
                print(f"port {port}: {rate:7.2f} Gb/s, busy {q.busy:.2f}, {source.account()}", flush=True)
    except KeyboardInterrupt:
        pass
    for _, _, source in sources:
        source.stop()
        source.join()


if __name__ == "__main__":
    main()
