"""`await queue.completion()`: sleeps in asyncio's loop, on the descriptors of the queue's device."""

import asyncio

from ._error import Error

# How long the reason of a session's end may be behind it.
_REASON_S = 0.5
# As EventQueue::Wait() has it: shorter waits are looks.
_LONG_WAIT_S = 0.1


class _Sleepers:
    """All that wait for some completion of one device. gpud wakes them together, and each looks at its own queue."""

    def __init__(self, device):
        self._device = device
        self._loop = None
        self._futures = set()

    def enter(self):
        loop = asyncio.get_running_loop()
        if self._futures and loop is not self._loop:
            raise Error(f"another event loop waits for device '{self._device.name}'", "BUSY", "await in one loop")
        if not self._futures:
            descriptors = self._device._descriptors
            self._device._arm()
            self._loop, self._descriptors = loop, descriptors
            for descriptor, wake in zip(descriptors, [self._wake, self._wake_at_the_end]):
                loop.add_reader(descriptor, wake)
        future = loop.create_future()
        self._futures.add(future)
        return future

    def leave(self, future):
        if future in self._futures:
            self._futures.remove(future)
            if not self._futures:
                self._stop()

    def wake(self):
        """Before the descriptors end or become others: close() and resume() call it, in any thread."""
        if not self._futures:
            return
        futures, self._futures = self._futures, set()
        if not self._loop.is_closed():
            self._stop()
            self._loop.call_soon_threadsafe(self._end, futures)

    def _stop(self):
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)
        self._device._disarm()

    def _wake(self):
        futures, self._futures = self._futures, set()
        try:
            if futures:
                self._stop()
        finally:
            self._end(futures)

    @staticmethod
    def _end(futures):
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _wake_at_the_end(self):
        try:
            self._device._wait_for_end(_REASON_S)
        finally:
            self._wake()


class _InVain:
    """Tells the flight recorder now and then, ever more seldom, that nothing has come."""

    def __init__(self, queue):
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._next(_LONG_WAIT_S)

    def _next(self, after):
        self._timer = self._loop.call_later(after, self._note)

    def _note(self):
        waited = self._loop.time() - self._start
        try:
            self._queue._note_missed(waited)
        except Error:
            return  # the sleeper hears of it
        self._next(waited)

    def end(self):
        self._timer.cancel()


def _turn_of(queue):
    """A lock of this loop's: who waits first has the oldest completion, however many tasks wait."""
    loop = asyncio.get_running_loop()
    if getattr(queue, "_turn", (None, None))[0] is not loop:
        queue._turn = loop, asyncio.Lock()
    return queue._turn[1]


async def completion(queue):
    async with _turn_of(queue):
        return await _completion(queue)


async def _completion(queue):
    device = queue.device
    if not hasattr(device, "_sleepers"):
        device._sleepers = _Sleepers(device)
    while True:
        done = next(queue.poll(), None)
        if done is not None:
            return done
        future = device._sleepers.enter()
        in_vain = _InVain(queue)
        try:
            # What has ended before the descriptor was armed does not wake.
            done = next(queue.poll(), None)
            if done is not None:
                return done
            await future
        finally:
            in_vain.end()
            device._sleepers.leave(future)
