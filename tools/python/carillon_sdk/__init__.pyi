"""The EDGE API in Python (docs/your_own.md). Each function raises Error; a wrong argument's type raises TypeError."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy
import numpy.typing

_Dim3 = int | tuple[int] | tuple[int, int] | tuple[int, int, int]
_Parameters = dict[str, "int | float | Buffer | Part | PerEvent | Taken"]

# The records of Queue.take(): sequence, slot, state (1 done, 2 failed, 3 aborted), status (0: it went well), reserved.
COMPLETION: numpy.dtype[Any]

class Error(Exception):
    # A word for programs: gpud's ("EKT_FULL"), the session's end ("PEER_DEAD"), or this module's ("RING_FULL").
    reason: str
    # What to do, where the reason is a known one; may be empty.
    remedy: str
    def __init__(self, message: str, reason: str, remedy: str) -> None: ...

def attach(name: str = "", *, kind: str, directory: str = "", counters: Sequence[str] = ..., submission_bytes: int = ...,
           completion_bytes: int = ..., timeout: float = 5.0) -> Device:
    """Joins the testbed in `directory`, or $CARILLON_TESTBED_DIR, as `name`, or $CARILLON_DEVICE_NAME. After a
    fork() the child's calls raise FORKED. Ctrl-C ends it."""

class Device:
    """A session with gpud, until close() or the end of `with`. Then every call on it, its buffers and its queues raises
    DETACHED; arrays that look at its buffers keep their last bytes, and their memory. For many threads, but for queues.
    Ctrl-C ends a call that waits for gpud, but for close()."""
    def __enter__(self) -> Device: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def device_id(self) -> int: ...
    def buffer(self, place: str, shape: int | tuple[int, ...], dtype: numpy.typing.DTypeLike = "u1") -> Buffer:
        """"input": the device writes, kernels read; "output": kernels write; "gpu": only kernels; "durable": as "output", and
        another gpud gets its bytes again. It is the device's, until free()."""
    def register(self, kernel: str, parameters: _Parameters = ..., *, grid: _Dim3 = 1, block: _Dim3 = 32, max_in_flight: int = 32,
                 shared_bytes: int = 0, priority: int = 0, label: str = "", launch_path: str = "", hands_to: str = "",
                 takes_from: str = "") -> Queue:
        """An event kernel with a ring of `max_in_flight`, a power of two. A parameter is a number, a buffer or a part of one,
        PerEvent or Taken."""
    def launch(self, kernel: str, parameters: _Parameters = ..., *, grid: _Dim3 = 1, block: _Dim3 = 32, shared_bytes: int = 0,
               priority: int = 0, timeout: float = 60.0) -> None:
        """Runs a background kernel to its end. Ctrl-C cuts it short: its blocks that run end, no other begins, and what it has
        written stays."""
    def copy(self, source: Part, target: Part, *, priority: int = 0, timeout: float = 60.0) -> None:
        """From an input buffer to GPU memory, or from there to an output or durable buffer. Ctrl-C cuts it short: some of the bytes
        are copied."""
    def kernels(self) -> dict[str, str]:
        """What can be registered or launched: name and summary."""
    def count(self, counter: str, by: int = 1) -> None:
        """Adds to a counter of attach(counters=...), which `carillon devices NAME` shows."""
    def report_ready(self, note: str = "") -> None:
        """Tells `carillon up` that the device serves."""
    def check(self) -> None:
        """Raises why gpud has ended the session, if it has."""
    @property
    def may_resume(self) -> bool:
        """Whether gpud has died, or makes way for another."""
    def resume(self, timeout: float) -> None:
        """Goes on with the next gpud: buffers, arrays and queues stay, and what was rung and has not ended is launched again.
        "output" and "gpu" buffers begin anew as zeros (Buffer.lost). Before it, poll() what has ended. PEER_DEAD, RESTARTING:
        no gpud so far; it may be called again, and until then all but close() is refused. BUSY while another call runs."""

class Buffer:
    """Memory that the device and kernels share. Indexing it is indexing `array`; with it a `with` block frees it."""
    def __enter__(self) -> Buffer: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def array(self) -> numpy.ndarray[Any, Any]:
        """The memory itself, no copy; read-only but for "input"."""
    def __array__(self, dtype: numpy.typing.DTypeLike = ...) -> numpy.ndarray[Any, Any]: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def place(self) -> str: ...
    @property
    def lost(self) -> bool:
        """Whether resume() has begun it anew as zeros."""
    def part(self, offset: int = 0, length: int | None = None) -> Part:
        """These bytes."""
    def per_slot(self) -> Part:
        """Its first axis is the slots of a ring: each event has its own part."""
    def free(self) -> None:
        """Gives it back. VIEWS_ALIVE while arrays look at it."""

class Part:
    @property
    def buffer(self) -> Buffer: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...

class PerEvent:
    """Of a registration: ring() brings a value, or a part of `buffer`."""
    def __init__(self, buffer: Buffer | None = None) -> None: ...

class Taken:
    """Of a registration with takes_from: the buffer that the other device's event has as its `parameter`."""
    def __init__(self, parameter: str) -> None: ...

class Completion:
    @property
    def sequence(self) -> int: ...
    @property
    def slot(self) -> int:
        """Whose outputs stay as they are until ring() takes the slot again."""
    @property
    def state(self) -> str:
        """"done", "failed", "aborted"."""
    @property
    def status(self) -> int:
        """0, or why it failed: shm::EventStatus, or the kernel's own from 1000 on."""
    @property
    def ok(self) -> bool: ...

class Queue:
    """A registered event kernel, for one thread at a time (BUSY). A completion is taken once, in the order of rings."""
    @property
    def device(self) -> Device: ...
    @property
    def kernel(self) -> str: ...
    @property
    def event_id(self) -> int: ...
    @property
    def launch_path(self) -> str: ...
    @property
    def free_slots(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def next_slot(self) -> int:
        """The slot that the next ring() takes."""
    @property
    def event_dtype(self) -> numpy.dtype[Any]:
        """The records of ring_batch(): all PerEvent parameters; a buffer as offset and length."""
    def ring(self, **parameters: int | float | Part) -> int:
        """Rings for one event with these PerEvent parameters; its sequence. RING_FULL, BAD_PARAMETER."""
    def ring_batch(self, events: int | numpy.ndarray[Any, Any]) -> int:
        """Rings once for as many records as there is room for, or for that many events without parameters; how many. gpud fails
        an event whose part of a buffer leaves it (status 3)."""
    def poll(self) -> Iterator[Completion]:
        """What has ended, without waiting. Raises the session's end once nothing is left."""
    def wait(self, timeout: float | None = None) -> Completion:
        """The next completion. DEADLINE_EXCEEDED after `timeout` seconds. Ctrl-C ends it."""
    def take(self, records: numpy.ndarray[Any, Any], timeout: float = 0.0) -> int:
        """Fills an array of COMPLETION with all that have ended, waiting for the first; how many. 0: none in time."""
    async def completion(self) -> Completion:
        """The next completion, in asyncio's loop."""
    def unregister(self) -> None:
        """Waits for the events in flight for at most a second, and aborts the rest."""
    def release_barrier(self) -> None: ...
