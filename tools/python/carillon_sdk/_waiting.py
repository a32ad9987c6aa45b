"""`await queue.completion()`: sleeps in asyncio's loop, on the descriptors of the queue's device."""

import asyncio

from ._error import Error

# How long the reason of a session's end may be behind it.
_REASON_S = 0.5


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
            self._loop = loop
            self._descriptors = self._device._descriptors
            self._device._arm()
            for descriptor, wake in zip(self._descriptors, [self._wake, self._wake_at_the_end]):
                loop.add_reader(descriptor, wake)
        future = loop.create_future()
        self._futures.add(future)
        return future

    def leave(self, future):
        if future in self._futures:
            self._futures.remove(future)
            if not self._futures:
                self._stop()

    def _stop(self):
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)
        self._device._disarm()

    def _wake(self):
        self._stop()
        futures, self._futures = self._futures, set()
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _wake_at_the_end(self):
        self._device._wait_for_end(_REASON_S)
        self._wake()


async def completion(queue):
    device = queue.device
    if not hasattr(device, "_sleepers"):
        device._sleepers = _Sleepers(device)
    while True:
        done = next(queue.poll(), None)
        if done is not None:
            return done
        future = device._sleepers.enter()
        try:
            # What has ended before the descriptor was armed does not wake.
            done = next(queue.poll(), None)
            if done is not None:
                return done
            await future
        finally:
            device._sleepers.leave(future)
