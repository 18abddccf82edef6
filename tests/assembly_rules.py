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
    turns: int = 0
    last_away: int = 0
    low: int = 0
    away_since: int = 0
    moves: bool = False
    home_at: int = 0
    heard: int = 0
    live: bool = True
    votes: bool = True
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
        self.patience = 0 if plan.skew is None else self.lasting(plan.window + plan.skew)
        self.leave = self.lasting(2 * plan.step)
        self.started = self.quiet = self.closed_any = self.given_any = False
        self.epoch, self.received, self.resyncs = -1, 0, 0
        self.now = self.last = self.latest = 0
        self.cells, self.closed, self.filled = defaultdict(set), [], set()
        self.arrived = {}  # when the newest packet of each open chunk came
        self.parked, self.parked_from, self.parked_at = {}, 0, 0  # packets of another time, by chunk
        self.lately = max(1024, 64 * len(self.heads))

    def lasting(self, units):
        return int(min(max(units / self.p.rate * 1e9, 1e7), 1e17)) if self.p.rate else 0

    # -- time ---------------------------------------------------------------------------------------------------------

    def event(self):
        moments = [h.heard + self.silence for h in self.heads if h.live and self.silence]
        moments += [h.heard + self.patience for h in self.heads if h.votes and self.patience]
        if self.linger and self.last and not self.quiet:
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
            quiet = [h for h in self.heads if h.votes and self.patience and h.heard + self.patience <= at]
            for h in silent:
                h.live = h.votes = False
            for h in quiet:
                h.votes = False
            if silent or quiet:
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
        self.place(head, number)

    def place(self, head, number):
        h, chunk = self.heads[head], number // self.p.packets
        self.enter(chunk)
        if not self.base <= chunk < self.base + self.rows:
            near = self.base - 8 * self.width <= chunk < self.base
            lags = near and (h.newest is None or number + self.lead >= h.newest)
            why = "jump" if not near else "duplicate" if chunk in self.filled else "late"
            if not lags:
                self.go_astray(head, number, why)
                return
            self.hear(h, number)
            h.counts[why] += 1
            return
        if (head, number) in self.cells[chunk]:
            if h.newest is not None and number + self.lead < h.newest:
                self.go_astray(head, number, "duplicate")
                return
            h.counts["duplicate"] += 1
            return
        known = h.live and h.newest is not None
        home = number <= h.newest + self.leap if known else chunk < self.base + self.width
        h.counts["placed"] += 1
        self.cells[chunk].add((head, number))
        self.arrived[chunk] = self.now
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
            leaps = self.sudden((chunk - self.top - 1) * self.p.packets, self.latest, self.now)
            if chunk < self.base or chunk - self.top > self.outage or leaps:
                self.resyncs += 1
                self.parked = {}
                self.begin(chunk)
            else:
                for h in self.heads:
                    h.newest, h.away = None, 0
                self.advance(chunk - self.width + 1)
        if chunk < self.base and not self.closed_any and self.top - chunk < self.width:
            self.base = chunk

    def wake(self):
        """Somebody is heard; that nobody was for so long is no head's silence."""
        spoke = max(h.heard for h in self.heads)
        if not self.silence or self.now - spoke < self.silence:
            return
        for h in self.heads:
            if h.heard + self.silence > spoke and h.away < VOTES:
                h.live = True
                h.votes |= not self.patience or h.heard + self.patience > spoke
            h.heard += self.now - spoke

    def begin(self, chunk):
        self.wake()
        self.closed_any = self.given_any = False
        self.latest = 0
        self.base = self.top = chunk
        self.filled = set()
        self.first, self.newest = float("inf"), -float("inf")
        self.epoch += 1
        for h in self.heads:
            h.newest = h.first = h.peak = h.charged = None
            h.away = h.home_at = 0
            h.heard = self.now
            h.live |= not self.started
            h.votes = h.live
        self.started = True

    def hear(self, h, number):
        self.wake()
        h.away, h.home_at, h.heard, h.live, h.votes = 0, self.received, self.now, True, True
        h.newest = number if h.newest is None else max(number, h.newest)
        self.newest = max(self.newest, h.newest)

    # -- clocks -------------------------------------------------------------------------------------------------------

    def gone(self, h):
        away = h.away >= 64 or self.now - h.heard >= self.leave
        return not self.leave or not self.now or h.newest is None or away

    def sudden(self, numbers, since, until):
        if not self.p.rate or self.p.skew is None or not since or not until:
            return False
        units = float(numbers) * self.p.step
        return units > self.p.window + self.p.skew and units > 2 * float(until - since) * (self.p.rate * 1e-9)

    def leapt(self, h, number):
        agrees = h.away > 0 and abs(number - h.last_away) <= self.near
        low = min(h.low, number)
        self.note_away(h, number, agrees)
        if agrees:
            h.low = low
        return h.away >= VOTES and h.turns >= 2 and self.gone(h)

    def note_away(self, h, number, agrees):
        h.turns = h.turns + (number != h.last_away) if agrees else 1
        h.away, h.last_away = h.away + 1 if agrees else 1, number
        if not agrees:
            h.low, h.away_since = number, self.now

    def stray(self, h, number):
        chunk = number // self.p.packets
        far = not self.base - 8 * self.width <= chunk < self.base + self.rows
        if far:
            self.leapt(h, number)
        elif h.away == 0 or number != h.last_away:
            self.note_away(h, number, h.away > 0 and 0 < number - h.last_away <= VOTES)
        if h.away >= 2 and self.moved(number, chunk, 2 if far else VOTES):
            return True
        if h.away >= VOTES and h.live and self.gone(h):
            h.live = h.votes = False
            self.close_passed()
        return False

    def moved(self, number, chunk, each):
        left = [o for o in self.heads if o.away >= each and o.turns >= 2 and self.gone(o)]
        away = [o for o in left if abs(o.last_away - number) <= self.near]
        timed = self.now and self.silence
        home = [
            o
            for o in self.heads
            if o not in left and o.live and o.home_at and (timed or self.received - o.home_at <= self.lately)
        ]
        if len(away) <= len(home) or sum(o.away for o in away) < VOTES:
            return False
        low = min(number, *(max(o.low, number - max(1, self.rows - 1) * self.p.packets) for o in away))
        since = min(self.now, *(o.away_since for o in away))
        heard = max(o.heard for o in self.heads)
        newest = max(self.newest, *(o.peak for o in self.heads if o.peak is not None), -1)
        for o in self.heads:
            o.moves = o in away
        self.wake()
        if 0 < chunk - self.top <= self.outage and not self.sudden(low - newest, heard, since):
            self.advance(low // self.p.packets)
        else:
            self.resyncs += 1
            self.close_all()
            self.begin(low // self.p.packets)
        for o in self.heads:
            if o.moves:
                o.newest, o.live, o.votes, o.away = o.last_away, True, True, 0
                o.home_at, o.heard = self.received, self.now
                self.newest = max(self.newest, o.newest)
        self.adopt()
        return True

    def go_astray(self, head, number, why):
        """Keep a packet of another time, until the clock is there or time is short."""
        h, chunk = self.heads[head], number // self.p.packets
        apart = not self.parked_from - self.width < chunk < self.parked_from + self.rows
        if apart or self.received - self.parked_at > self.lately:
            self.parked = {}
        if not self.parked:
            self.parked_from = chunk
        self.parked_at = self.received
        kept_as, cells, _ = self.parked.setdefault(chunk, [why, set(), 0])
        keeps = (head, number) not in cells
        if keeps:
            h.counts[kept_as] += 1
            cells.add((head, number))
            self.parked[chunk][2] = self.now
        moved = self.stray(h, number)
        if moved and not keeps:
            self.place(head, number)
        elif not keeps:
            h.counts[why] += 1

    def adopt(self):
        """Place what was kept of the time to which the clock has moved."""
        for chunk, (why, cells, latest) in self.parked.items():
            if not self.base <= chunk < self.base + self.rows or self.cells.get(chunk):
                continue
            self.cells[chunk], self.arrived[chunk] = cells, latest
            self.top = max(self.top, chunk)
            for head, _ in cells:
                self.heads[head].counts[why] -= 1
                self.heads[head].counts["placed"] += 1
            self.learn(cells)
        self.parked = {}
        if self.full():
            self.close_first()
        self.close_passed()

    def learn(self, cells):
        for head, number in cells:
            h = self.heads[head]
            h.first = number if h.first is None else min(h.first, number)
            h.peak = number if h.peak is None else max(h.peak, number)
            self.first = min(self.first, number)

    # -- closing ------------------------------------------------------------------------------------------------------

    def close_passed(self):
        def up(time):
            return (self.base + 1) * self.p.packets + -(-time // self.p.step)

        while self.base < self.top:
            live = [h for h in self.heads if h.live]
            times = [h.newest for h in live if h.newest is not None]
            all_past = times and len(times) == len(live) and min(times) >= up(self.p.window)
            says = [h.newest for h in live if h.votes and h.newest is not None]
            far = [t for t in says if self.p.skew is not None and t >= up(self.p.window + self.p.skew)]
            if not all_past and 2 * len(far) <= len(says):
                return
            self.close_first()

    def close_first(self, final=False):
        if not self.cut():
            self.close_one(final)
        if self.full():
            self.close_first(final)

    def cut(self):
        start = self.base + bool(self.cells.get(self.base))
        to = min((c for c, cells in self.cells.items() if cells and c >= start), default=None)
        if to is None or to > self.top:
            return False
        since = self.arrived[self.base] if start > self.base else self.latest
        if not self.sudden((to - start) * self.p.packets, since, self.arrived[to]):
            return False
        known = [h for h in self.heads if h.live and h.newest is not None]
        begin = to * self.p.packets
        there = sum(h.newest >= begin or (h.away >= VOTES and h.last_away >= begin) for h in known)
        if known and 2 * there <= len(known):
            return False
        if start > self.base:
            newest, self.newest = self.newest, -float("inf")
            for h in self.heads:
                h.peak = None
            self.learn(self.cells[self.base])
            self.newest = max(h.peak for h in self.heads if h.peak is not None)
            self.close_one(True)
            self.newest = newest
        self.base, self.given_any, self.filled = to, False, set()
        self.epoch += 1
        self.resyncs += 1
        begin = to * self.p.packets
        self.first = float("inf")
        for h in self.heads:
            h.charged = h.first = None
            h.newest = None if h.newest is None or h.newest < begin else h.newest
            h.peak = None if h.peak is None or h.peak < begin else h.peak
        for chunk, cells in self.cells.items():
            if chunk >= to:
                self.learn(cells)
        return True

    def close_one(self, final):
        if self.full():
            self.filled.add(self.base)
        cells = self.cells.pop(self.base, set())
        self.latest = self.arrived.pop(self.base) if cells else self.latest
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
