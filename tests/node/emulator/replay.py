"""The device model computed a second time, by other means, from the recorded inputs: slow, plain, and from the document."""

from dataclasses import dataclass, field


@dataclass
class _Piece:
    kind: str
    seq: int
    unit_ns: int = 0
    units: int = 0
    on: tuple = ()


@dataclass
class _Stream:
    priority: int = 0
    queue: list = field(default_factory=list)
    done: int = 0
    progress_ns: int = 0


@dataclass
class _Context:
    slot: int
    alive: bool = True
    streams: dict = field(default_factory=dict)
    current: int | None = None
    last_stream: int = 511
    busy_ns: int = 0
    wait_ns: int = 0
    wait_in_switch_ns: int = 0
    slices: int = 0
    preemptions: int = 0
    units_done: int = 0
    wait_on_ns: dict = field(default_factory=dict)


class Replay:
    """The scheduling rules of docs/emulated-gpu.md, written down a second time: slow, plain, and from the document.

    Give it the recorded inputs; it says what each context must have got.
    """

    def __init__(self, *, slice_ns, switch_ns, started_ns=0):
        self.slice_ns, self.switch_ns, self.clock = slice_ns, switch_ns, started_ns
        self.contexts = {}
        self.doing = ("idle",)  # ("running", id, slice end) or ("switching", from, to, end)
        self.resident = None  # a context's id, "gone", or None on a fresh device
        self.totals = {"idle": 0, "running": 0, "switching": 0}
        self.switches = 0
        self.spans = []

    def replay(self, inputs, until_ns):
        for item in inputs:
            self.run_until(item.at_ns)
            self.take(item)
            self.settle()
            self.find_work()
        self.run_until(until_ns)
        return self

    # -- what is asked

    def take(self, item):
        what, context = item.what, self.contexts.get(item.context)
        if what == "context-open":
            self.contexts[item.context] = _Context(item.a)
        elif what == "context-close":
            self.close(item.context)
        elif what == "stream-open":
            priority = item.a - (1 << 64) if item.a >> 63 else item.a
            old = context.streams.get(item.stream)
            context.streams[item.stream] = old or _Stream()
            context.streams[item.stream].priority = priority
        elif what == "work":
            context.streams[item.stream].queue.append(_Piece("work", item.seq, item.a, item.b))
        elif what == "wait":
            context.streams[item.stream].queue.append(_Piece("wait", item.seq, on=(item.a, item.b, item.c)))
        elif what in {"mark", "host"}:
            context.streams[item.stream].queue.append(_Piece(what, item.seq))
        elif what == "host-done":
            stream = context.streams[item.stream]
            stream.done = stream.queue.pop(0).seq

    def close(self, name):
        self.contexts[name].alive = False
        if self.resident == name:
            self.resident = "gone"
            if self.doing[0] == "running":
                self.doing = ("idle",)
        if self.doing[0] == "switching" and self.doing[1] == name:
            self.doing = ("switching", "gone", *self.doing[2:])

    def settle(self):
        again = True
        while again:
            again = False
            for context in self.contexts.values():
                for stream in context.streams.values() if context.alive else ():
                    while stream.queue and self.passes(stream.queue[0]):
                        stream.done = stream.queue.pop(0).seq
                        again = True

    def passes(self, piece):
        if piece.kind == "wait":
            name, stream, seq = piece.on
            return not self.contexts[name].alive or self.contexts[name].streams[stream].done >= seq
        return piece.kind == "mark"

    # -- who runs

    def can_run(self, name):
        context = self.contexts[name]
        return context.alive and any(s.queue and s.queue[0].kind == "work" for s in context.streams.values())

    def next_after(self, slot):
        able = sorted((self.contexts[name].slot, name) for name in self.contexts if self.can_run(name))
        later = [name for place, name in able if place > slot]
        return later[0] if later else able[0][1] if able else None

    def give_to(self, name):
        if name is None:
            self.doing = ("idle",)
        elif self.resident in {name, None} or not self.switch_ns:
            self.start(name)
        else:
            self.doing = ("switching", self.resident, name, self.clock + self.switch_ns)
            self.switches += 1

    def start(self, name):
        self.resident = name
        self.doing = ("running", name, self.clock + self.slice_ns)
        self.contexts[name].slices += 1
        self.choose_stream(self.contexts[name])

    def choose_stream(self, context):
        if context.current is not None:
            return
        able = {slot: s.priority for slot, s in context.streams.items() if s.queue and s.queue[0].kind == "work"}
        best = min(able.values())
        turn = sorted(able, key=lambda slot: (slot - context.last_stream - 1) % 512)
        context.current = next(slot for slot in turn if able[slot] == best)

    def find_work(self):
        if self.doing[0] == "idle":
            known = self.contexts.get(self.resident)
            self.give_to(self.next_after(known.slot if known else -1))
        elif self.doing[0] == "running":
            name = self.doing[1]
            if not self.can_run(name):
                self.give_to(self.next_after(self.contexts[name].slot))
            else:
                self.choose_stream(self.contexts[name])

    # -- how time passes

    def run_until(self, until_ns):
        while True:
            if self.doing[0] == "idle":
                return self.spend(until_ns - self.clock)
            if self.doing[0] == "switching":
                at = self.doing[3]
            else:
                stream = self.running_stream()
                ends = self.clock + stream.queue[0].unit_ns - stream.progress_ns
                at = min(ends, self.doing[2])
            if at > until_ns:
                return self.spend(until_ns - self.clock)
            self.spend(at - self.clock)
            if self.doing[0] == "switching":
                self.switched()
            elif at == ends:
                self.kernel_done()
            else:
                self.slice_over()

    def running_stream(self):
        context = self.contexts[self.doing[1]]
        return context.streams[context.current]

    def spend(self, span):
        if span <= 0:
            return
        holder = {"idle": None, "running": self.doing[1:2], "switching": self.doing[2:3]}[self.doing[0]]
        self.totals[self.doing[0]] += span
        if holder:
            last = self.spans[-1] if self.spans else None
            if last and last[1:] == (self.clock, self.doing[0], holder[0]):
                self.spans[-1] = (last[0], self.clock + span, *last[2:])
            else:
                self.spans.append((self.clock, self.clock + span, self.doing[0], holder[0]))
        if self.doing[0] == "running":
            self.contexts[holder[0]].busy_ns += span
            self.running_stream().progress_ns += span
        for name, context in self.contexts.items():
            if not self.can_run(name) or (self.doing[0] == "running" and name == holder[0]):
                continue
            culprit = holder[0]
            context.wait_ns += span
            if self.doing[0] == "switching":
                context.wait_in_switch_ns += span
                if name == culprit:
                    culprit = self.doing[1]
            context.wait_on_ns[culprit] = context.wait_on_ns.get(culprit, 0) + span
        self.clock += span

    def kernel_done(self):
        context, stream = self.contexts[self.doing[1]], self.running_stream()
        stream.progress_ns = 0
        context.units_done += 1
        context.last_stream, context.current = context.current, None
        stream.queue[0].units -= 1
        if not stream.queue[0].units:
            stream.done = stream.queue.pop(0).seq
        self.settle()
        self.find_work()

    def slice_over(self):
        name = self.doing[1]
        if self.next_after(self.contexts[name].slot) == name:
            self.doing = ("running", name, self.doing[2] + self.slice_ns)
            return
        if self.running_stream().progress_ns:
            self.contexts[name].preemptions += 1
        self.give_to(self.next_after(self.contexts[name].slot))

    def switched(self):
        name = self.doing[2]
        if self.can_run(name):
            self.start(name)
            return
        self.resident = name if self.contexts[name].alive else "gone"
        self.give_to(self.next_after(self.contexts[name].slot))
