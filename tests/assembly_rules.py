"""The rules of `ryle.receive.assembly`, packet by packet and without a thought for speed: what the assembler must do."""

from collections import defaultdict
from dataclasses import dataclass, field

VOTES = 8


@dataclass
class Head:
    """What is known of one stream in this epoch."""

    newest: int | None = None  # its time, as it is believed
    first: int | None = None
    peak: int | None = None  # newest that was placed
    charged: int | None = None
    away: int = 0
    last_away: int = 0
    low: int = 0
    home_at: int = 0
    heard: int = 0
    live: bool = True
    counts: dict = field(default_factory=lambda: dict.fromkeys(("placed", "late", "duplicate", "jump", "missing"), 0))


class Rules:
    """An assembler that has memory for all chunks that may be open.

    `closed` gets (epoch, number, cells) for each chunk, `cells` a set of (head, number), empty if it is void.
    """

    def __init__(self, plan):
        self.p, self.heads = plan, [Head() for _ in plan.heads]
        self.width = plan.open_most
        self.outage = max(1, (1000 * plan.span if plan.outage is None else plan.outage) // plan.span)
        self.rows = min(plan.chunks, self.width + self.outage)
        self.lead = plan.window // plan.step  # whole packets that one head may be out of order
        self.leap = max(self.lead, plan.packets, VOTES)
        self.near = max(1, self.width - 1) * plan.packets
        self.silence, self.linger = round(plan.silence * 1e9), round(plan.linger * 1e9)
        self.started = self.quiet = self.closed_any = self.given_any = False
        self.epoch, self.received, self.resyncs = -1, 0, 0
        self.now = self.last = 0
        self.cells, self.closed, self.filled = defaultdict(set), [], set()

    # -- time ---------------------------------------------------------------------------------------------------------

    def event(self):
        moments = [h.heard + self.silence for h in self.heads if h.live and self.silence]
        if self.linger and self.last and self.base <= self.top:
            moments.append(self.last + self.linger)
        return min(moments, default=float("inf"))

    def tick(self, now):
        if not self.now or now < self.now - 10 * 10**9:
            self.now, self.last = now, now if self.last else 0
            for h in self.heads:
                h.heard = now
        while self.started and (at := self.event()) <= now:
            self.now = max(self.now, at)
            silent = [h for h in self.heads if h.live and self.silence and h.heard + self.silence <= at]
            for h in silent:
                h.live = False
            if silent:
                self.close_passed()
            else:
                self.close_all()
                self.quiet = True
        self.now = max(self.now, now)

    def idle(self, now):
        self.last = self.last or now
        self.tick(now)

    # -- packets ------------------------------------------------------------------------------------------------------

    def take(self, head, number, arrived=0):
        if arrived:
            self.tick(arrived)
        self.last = self.now if arrived else 0
        self.received += 1
        h, chunk = self.heads[head], number // self.p.packets
        self.enter(chunk)
        if not self.base <= chunk < self.base + self.rows:
            near = self.base - 8 * self.width <= chunk < self.base
            lags = near and (h.newest is None or number + self.lead >= h.newest)
            if lags:
                self.hear(h, number)
            if lags or not self.stray(h, number):
                h.counts["jump" if not near else "duplicate" if chunk in self.filled else "late"] += 1
                return
        if (head, number) in self.cells[chunk]:
            h.counts["duplicate"] += 1
            if h.newest is not None and number + self.lead < h.newest:
                self.stray(h, number)
            return
        known = h.live and h.newest is not None
        home = number <= h.newest + self.leap if known else chunk < self.base + self.width
        h.counts["placed"] += 1
        self.cells[chunk].add((head, number))
        h.first = min(number, number if h.first is None else h.first)
        h.peak = max(number, number if h.peak is None else h.peak)
        self.first = min(self.first, number)
        self.top = max(self.top, chunk)
        if home or self.leapt(h, number):
            self.hear(h, number)
            self.close_passed()
        if chunk == self.base and self.full():
            self.close_first()

    def full(self):
        return len(self.cells.get(self.base, ())) == len(self.heads) * self.p.packets

    def enter(self, chunk):
        if not self.started:
            self.begin(chunk)
        if self.quiet:
            self.quiet = False
            if chunk < self.base or chunk - self.top > self.outage:
                self.resyncs += 1
                self.begin(chunk)
            else:
                for h in self.heads:
                    h.newest, h.away = None, 0
                self.advance(chunk - self.width + 1)
        if chunk < self.base and not self.closed_any and self.top - chunk < self.width:
            self.base = chunk

    def begin(self, chunk):
        self.closed_any = self.given_any = False
        self.base = self.top = chunk
        self.filled = set()
        self.first, self.newest = float("inf"), -float("inf")
        self.epoch += 1
        for h in self.heads:
            h.newest = h.first = h.peak = h.charged = None
            h.away = h.home_at = 0
            h.heard = self.now
            h.live |= not self.started
        self.started = True

    def hear(self, h, number):
        h.away, h.home_at, h.heard, h.live = 0, self.received, self.now, True
        h.newest = number if h.newest is None else max(number, h.newest)
        self.newest = max(self.newest, h.newest)

    # -- clocks -------------------------------------------------------------------------------------------------------

    def leapt(self, h, number):
        agrees = h.away > 0 and abs(number - h.last_away) <= self.near
        h.away, h.low, h.last_away = (h.away + 1, min(h.low, number), number) if agrees else (1, number, number)
        return h.away >= VOTES

    def stray(self, h, number):
        chunk = number // self.p.packets
        far = not self.base - 8 * self.width <= chunk < self.base + self.rows
        if far:
            self.leapt(h, number)
        elif h.away == 0 or number != h.last_away:
            agrees = h.away > 0 and 0 < number - h.last_away <= VOTES
            h.away, h.low, h.last_away = (h.away + 1, h.low, number) if agrees else (1, number, number)
        if h.away >= 2 and self.moved(number, chunk, far):
            return True
        if h.away >= VOTES and h.live:
            h.live = False
            self.close_passed()
        return False

    def moved(self, number, chunk, far):
        each = 2 if far else VOTES
        away = [o for o in self.heads if o.away >= each and abs(o.last_away - number) <= self.near]
        patience = max(1024, 64 * len(self.heads))
        home = [
            o for o in self.heads if o.away < each and o.live and o.home_at and self.received - o.home_at <= patience
        ]
        if len(away) <= len(home) or sum(o.away for o in away) < VOTES:
            return False
        low = min(number, *(max(o.low, number - self.near) for o in away))
        if 0 < chunk - self.top <= self.outage:
            for o in self.heads:
                if o.away >= 2:
                    if o.last_away >= low:
                        o.newest = o.last_away if o.newest is None else max(o.newest, o.last_away)
                        o.live, o.heard = True, self.now
                        self.newest = max(self.newest, o.newest)
                        self.top = max(self.top, o.last_away // self.p.packets)
                    o.away = 0
            self.advance(low // self.p.packets)
        else:
            self.resyncs += 1
            self.close_all()
            self.begin(low // self.p.packets)
        return True

    # -- closing ------------------------------------------------------------------------------------------------------

    def close_passed(self):
        def up(time):
            return (self.base + 1) * self.p.packets + -(-time // self.p.step)

        while self.base < self.top:
            live = [h for h in self.heads if h.live]
            times = [h.newest for h in live if h.newest is not None]
            all_past = times and len(times) == len(live) and min(times) >= up(self.p.window)
            far = [t for t in times if self.p.skew is not None and t >= up(self.p.window + self.p.skew)]
            if not all_past and 2 * len(far) <= len(times):
                return
            self.close_first()

    def close_first(self, final=False):
        if self.full():
            self.filled.add(self.base)
        cells = self.cells.pop(self.base, set())
        end, p = (self.base + 1) * self.p.packets, self.p
        for i, h in enumerate(self.heads):
            start = h.charged if h.charged is not None else h.first if h.first is not None else self.first
            stop = end
            if final:
                mine = h.peak is not None and self.newest - h.peak <= ((p.skew or 0) + p.window) // p.step
                stop = min(end, (h.peak if mine else self.newest) + 1)
            if stop > start:
                h.counts["missing"] += stop - start - sum(1 for head, _ in cells if head == i)
                h.charged = stop
        self.give([self.base], cells)
        self.base += 1
        self.closed_any = True
        if self.full():
            self.close_first()

    def give(self, numbers, cells=frozenset()):
        if cells:
            self.given_any, self.voids = True, 0
        elif self.given_any:
            self.voids += len(numbers)
            if self.voids > self.outage:
                self.epoch += 1
                self.resyncs += 1
                self.given_any = False
        if self.given_any:
            self.closed += [(self.epoch, number, cells) for number in numbers]

    def advance(self, chunk):
        while self.base < chunk and self.base <= self.top:
            self.close_first()
        if self.base < chunk:
            self.give(range(self.base, chunk))
            self.base = chunk

    def close_all(self):
        while self.started and self.base <= self.top:
            self.close_first(True)

    def counts(self):
        return {name: [h.counts[name] for h in self.heads] for name in self.heads[0].counts}
