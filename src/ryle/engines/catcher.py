"""The catcher's bookkeeping: integrations of substreams in, integrations of the whole band out, in time order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..chunk import Integration
from ..config import FOREIGN_X_HEAPS, ConfigError, Observation, Problem
from ..monitor.status import StatusReporter
from ..net.accounting import Account
from ..net.casper import DumpReceiver
from ..net.visibilities import VisibilityReceiver
from ..products.observed import kept_note, metadata, output_file
from ..products.uvh5 import UVH5Writer
from .control import DrainControl
from .summing import Summing
from .window import f_batch
from .x import X_WINDOW


class BandAssembler:
    """Joins the substreams of each integration.

    An integration is given when all its substreams are there; or, with counts of zero for what is missing, when one
    that is `window` integrations later has begun and it has waited for `patience` seconds: X-engines may be far apart
    in signal time and yet on time. Eight windows are the most that is ever kept.

    Parameters
    ----------
    channels, substreams, groups : int
        Of the whole band; `groups` of each substream.
    products : int
        Products of a channel.
    window : int
        Integrations by which one substream may be ahead of another.
    patience : float
        Seconds.
    clock : callable
        Gives seconds.
    """

    def __init__(
        self,
        channels: int,
        substreams: int,
        groups: int,
        products: int,
        window: int = 4,
        patience: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channels = channels
        self._substreams = substreams
        self._groups = groups
        self._products = products
        self.window = window
        self._patience = patience
        self._clock = clock
        self._open: dict[int, tuple[Integration, set[int], float]] = {}  # with the time at which it began
        self._given = -1  # first spectrum of the last integration given
        self.placed = 0
        self.late = 0
        self.duplicate = 0
        self.missing = 0

    def push(self, part: Integration) -> Iterator[Integration]:
        """Add one substream's integration; give those of the whole band that are due, in time order.

        Parameters
        ----------
        part : Integration
            Of one substream; its arrays are copied.
        """
        substream = part.first_channel * self._substreams // self._channels
        if part.first_spectrum <= self._given:
            self.late += 1
            return
        if part.first_spectrum not in self._open:
            self._open[part.first_spectrum] = (self._empty(part), set(), self._clock())
        whole, have, _ = self._open[part.first_spectrum]
        if substream in have:
            self.duplicate += 1
            return
        self.placed += 1
        have.add(substream)
        whole.visibilities[part.first_channel : part.first_channel + part.channels] = part.visibilities
        whole.counts[substream * self._groups : (substream + 1) * self._groups] = part.counts
        newest = max(self._open)
        for first in sorted(self._open):
            _, have, began = self._open[first]
            later = (newest - first) // part.spectra
            overdue = later >= self.window and self._clock() - began >= self._patience
            if len(have) < self._substreams and not overdue and later < 8 * self.window:
                break
            yield self._give(first)

    def flush(self) -> Iterator[Integration]:
        """Give what is open, as it is."""
        for first in sorted(self._open):
            yield self._give(first)

    def _give(self, first: int) -> Integration:
        whole, have, _ = self._open.pop(first)
        self.missing += self._substreams - len(have)
        self._given = first
        return whole

    def _empty(self, part: Integration) -> Integration:
        return Integration(
            part.first_spectrum,
            part.spectra,
            0,
            np.zeros((self._channels, self._products, 2), np.int64),
            np.zeros((self._substreams * self._groups, self._products), np.uint32),
        )


def band_assembler(observation: Observation) -> BandAssembler:
    """Make the assembler of an observation.

    X-engines go at their own pace: one may be ahead of another by all that the other's receiver holds, its open
    window and as many chunks again that wait.
    """
    o = observation
    behind = 2 * X_WINDOW * f_batch(o) * o.batch_spectra // o.integration_spectra
    return BandAssembler(o.fengine.channels, o.substreams, o.groups, o.products, window=behind + 4)


def assembled(received: Account, assembler: BandAssembler) -> Account:
    """Give the account of the hand-over to the writer: what came but does not get into the file is not placed."""
    expected = received.expected
    return replace(
        received,
        placed=assembler.placed,
        late=assembler.late,
        duplicate=None if received.duplicate is None else received.duplicate + assembler.duplicate,
        missing=None if expected is None else expected - assembler.placed,
    )


def serve(
    observation: Observation,
    output: Path | None,
    supervised: bool,
    *,
    file: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Be the catcher: receive visibilities of all substreams, write one file, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    output : Path, optional
        Directory to write to, instead of the observation's.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    file : Path, optional
        File to write, which a supervisor has chosen; else the first that no earlier run has left.
    overwrite : bool
        Replace what an earlier run has left.
    """
    o = observation
    if o.xengine.sends == "meerkat" and o.catcher.packets is None:
        raise ConfigError(o.source, [Problem("xengine.sends", "meerkat", FOREIGN_X_HEAPS)])
    assembler = band_assembler(o) if o.catcher.packets is None else None
    path = file or output_file(o, output, overwrite=overwrite)
    if note := kept_note(o, path):
        print(note, file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    receiver: VisibilityReceiver | DumpReceiver = (
        VisibilityReceiver(o, skew=assembler.window - 2) if assembler is not None else DumpReceiver(o)
    )
    with receiver, UVH5Writer(path, metadata(o), overwrite=overwrite) as writer:
        position = 0.0

        def status() -> dict[str, Any]:
            account = receiver.account()
            if assembler is not None:
                account = assembled(account, assembler)
            return {
                "received": account.datagrams,
                "pending": receiver.pending,
                "bytes": (account.datagrams or 0) * o.substream_channels * o.products * 16,
                "account": account.as_dict(),
                "position": position,
                "integrations": writer.integrations,
            }

        with StatusReporter({"role": "catcher", "index": 0}, status) as reporter:
            summing = Summing(o.file_spectra)

            def add(integration: Integration) -> None:
                for whole in summing.push(integration):
                    write(whole)

            def write(integration: Integration) -> None:
                nonlocal position
                written = writer.append(integration)
                position = (integration.first_spectrum + integration.spectra) * o.step / float(o.sample_rate)
                reporter.event("written", integration=written, first_spectrum=integration.first_spectrum)

            control = DrainControl(receiver.stop, supervised)
            reporter.set_state("ready")
            for part in receiver:
                reporter.state = "draining" if control.draining.is_set() else "running"
                for integration in (part,) if assembler is None else assembler.push(part):
                    add(integration)
            for integration in () if assembler is None else assembler.flush():
                add(integration)
            for integration in summing.flush():
                write(integration)
