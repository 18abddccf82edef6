"""All that is looked at, in the order of the way of a packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ryle.doctor.buses import buses
from ryle.doctor.cards import cards
from ryle.doctor.clock import clock
from ryle.doctor.drivers import drivers
from ryle.doctor.finding import Finding
from ryle.doctor.gpus import gpus
from ryle.doctor.machine import Machine
from ryle.doctor.memory import memory
from ryle.doctor.needs import Needs
from ryle.doctor.network import network
from ryle.doctor.processors import processors
from ryle.doctor.way import way

Look = Callable[[Machine, Needs], Iterator[Finding]]
PARTS: Mapping[str, Look] = {
    "Network cards": cards,
    "Way to other hosts": way,
    "Network stack": network,
    "Cards of DPDK": drivers,
    "Buses and nodes": buses,
    "Processors": processors,
    "Memory": memory,
    "GPUs": gpus,
    "Time": clock,
}


def examine(machine: Machine | None = None, needs: Needs | None = None) -> dict[str, list[Finding]]:
    """Look at a machine.

    Parameters
    ----------
    machine : Machine, optional
        Facts; of this machine if absent.
    needs : Needs, optional
        What is wanted; what any correlator wants if absent.

    Returns
    -------
    dict of str to list of Finding
        By part of the machine.
    """
    machine, needs = machine or Machine(), needs or Needs()
    return {part: list(look(machine, needs)) for part, look in PARTS.items()}
