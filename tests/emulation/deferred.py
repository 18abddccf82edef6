"""An emulated GPU that does nothing before it must, and then in any order that streams and events allow.

`DeferredGpu` finds what is missing between streams: work that did not wait for the copy that it needs, page-locked memory
that was written to or read too early.
"""

import random
import threading

import numpy as np

from emulation import EmulatedGpu
from emulation.memory import of_whole_pages
from ryle.gpu.interface import check_box


class DeferredEvent:
    def __init__(self, stream, count):
        self.stream, self.count = stream, count

    @property
    def passed(self):
        return self.stream.done >= self.count

    def synchronize(self):
        with self.stream.gpu.running:
            self.stream.gpu.run_until(self)


class DeferredStream:
    handle = 0

    def __init__(self, gpu):
        self.gpu, self.queue, self.done, self.asked = gpu, [], 0, 0

    def enqueue(self, work, after=None):
        with self.gpu.running:
            self.queue.append((work, after))
            self.asked += 1

    def record(self):
        return DeferredEvent(self, self.asked)

    def wait(self, event):
        self.enqueue(lambda: None, event)

    def synchronize(self):
        self.record().synchronize()

    @property
    def ready(self):
        return bool(self.queue) and (self.queue[0][1] is None or self.queue[0][1].passed)

    def step(self):
        work, _ = self.queue.pop(0)
        work()
        self.done += 1


class DeferredArray:
    def __init__(self, gpu, array):
        self.gpu, self.array = gpu, array

    def __getattr__(self, name):
        return getattr(self.array, name)

    def set(self, host, stream=None):
        source = host if self.gpu.is_pinned(host) else np.array(host)
        self.gpu.on(stream).enqueue(lambda: self.array.set(source))

    def copy_to(self, out, stream=None):
        self.gpu.on(stream).enqueue(lambda: self.array.copy_to(getattr(out, "array", out)))
        if isinstance(out, np.ndarray) and not self.gpu.is_pinned(out):
            self.gpu.on(stream).synchronize()

    def get(self, out=None, stream=None):
        out = np.empty(self.shape, self.dtype) if out is None else out
        self.copy_to(out, stream)
        self.gpu.on(stream).synchronize()
        return out

    def fill(self, byte, stream=None):
        self.gpu.on(stream).enqueue(lambda: self.array.fill(byte))

    def set_columns(self, first, host, stream=None):
        source = host if self.gpu.is_pinned(host) else np.array(host)
        self.array._columns(first, host[0].nbytes)
        self.gpu.on(stream).enqueue(lambda: self.array.set_columns(first, source))

    def move_columns(self, to, first, count, stream=None):
        self.array._columns(to, count)
        self.gpu.on(stream).enqueue(lambda: self.array.move_columns(to, first, count))

    def fill_columns(self, first, count, byte, stream=None):
        self.array._columns(first, count)
        self.gpu.on(stream).enqueue(lambda: self.array.fill_columns(first, count, byte))

    def take_box(self, at, source, first, box, stream=None):
        check_box(self.shape, at, box)
        check_box(source.shape, first, box)
        self.gpu.on(stream).enqueue(lambda: self.array.take_box(at, source.array, first, box))

    def view(self, shape, dtype, first=0):
        return DeferredArray(self.gpu, self.array.view(shape, dtype, first))


class DeferredKernel:
    def __init__(self, gpu, kernel):
        self.gpu, self.kernel = gpu, kernel

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def launch(self, grid, block, /, *, shared=0, stream=None, **args):
        plain = {name: getattr(a, "array", a) if isinstance(a, DeferredArray) else a for name, a in args.items()}
        self.gpu.on(stream).enqueue(lambda: self.kernel.launch(grid, block, **plain, shared=shared))


class DeferredGpu:
    """An `EmulatedGpu` behind streams that take turns at random, as late as possible.

    One `beside` another has memory and kernels of its own; their streams take turns together, and wait for each other.
    """

    def __init__(self, seed=1, beside=None):
        self.emulated = EmulatedGpu(seed=seed)
        if beside is None:
            self.random, self.streams, self._pinned, self.running = random.Random(seed), [], [], threading.RLock()
        else:
            self.random, self.streams = beside.random, beside.streams
            self._pinned, self.running = beside._pinned, beside.running
        self.default_stream = self.stream()
        self.allocated = 0

    def __getattr__(self, name):
        return getattr(self.emulated, name)

    def on(self, stream):
        return self.default_stream if stream is None else stream

    def stream(self):
        self.streams.append(DeferredStream(self))
        return self.streams[-1]

    def run_until(self, event):
        while not event.passed:
            ready = [s for s in self.streams if s.ready]
            assert ready, "streams wait for one another"
            self.random.choice(ready).step()

    def empty(self, shape, dtype):
        self.allocated += 1
        return DeferredArray(self, self.emulated.empty(shape, dtype))

    def array(self, host, stream=None):
        made = self.empty(np.shape(host), np.asarray(host).dtype)
        made.set(np.asarray(host), stream)
        return made

    def pinned(self, shape, dtype):
        made = of_whole_pages(shape, dtype)
        self.emulated.allocations.add_locked(made)
        made.reshape(-1).view(np.uint8).fill(0xFF)
        self._pinned.append((made, made.ctypes.data, made.nbytes))  # kept: nothing else comes to lie there
        return made

    def is_pinned(self, array):
        at = array.ctypes.data
        return any(begin <= at and at + array.nbytes <= begin + nbytes for _, begin, nbytes in self._pinned)

    is_locked = is_pinned

    def kernel(self, source, name, defines):
        return DeferredKernel(self, self.emulated.kernel(source, name, defines))
