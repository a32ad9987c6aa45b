"""carillon_sdk against a real gpud."""

import ast
import asyncio
import gc
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import carillon_sdk
import numpy
from carillon_sdk import COMPLETION, Error, PerEvent
from carillon_testbed import Testbed, TestbedError, programs

BOUND_S = 60
LONG_S = 120  # nothing here waits so long
GPU = "gpu: {backend: cpu, memory: 256MiB}\n"
RESTARTED_GPU = "gpu: {backend: cpu, memory: 256MiB, restart: on_failure}\n"
SENSOR = pathlib.Path("devices/example/sensor.py").absolute()

# Rings and takes for ever, and looks at every echo; goes on with the next gpud.
ECHOER = """
import carillon_sdk, sys
with carillon_sdk.attach(kind="echoer") as device:
    data, echo = device.buffer("input", (8, 64)), device.buffer("output", (8, 64))
    queue = device.register("echo", {"in": data.per_slot(), "out": echo.per_slot()}, max_in_flight=8)
    array, number = echo.array, 0
    device.report_ready()
    while True:
        try:
            while queue.free_slots:
                data[queue.next_slot] = number % 251
                queue.ring()
                number += 1
            for done in [queue.wait(60), *queue.poll()]:
                assert done.ok and (array[done.slot] == (done.sequence - 1) % 251).all(), done
        except carillon_sdk.Error as error:
            if error.reason not in ("PEER_DEAD", "RESTARTING"):
                raise
            for done in taken(queue):
                pass
            device.resume(timeout=60)
            assert echo.lost and not data.lost
            assert echo.array is array
            print("resumed", flush=True)
"""
TAKEN = """
def taken(queue):
    try:
        yield from queue.poll()
    except carillon_sdk.Error:
        pass
"""


def device_lines(script, **more):
    """A topology's lines for a device in Python."""
    keys = "".join(f", {key}: {value}" for key, value in more.items())
    return f"devices:\n  - {{name: py0, kind: exec, command: [/usr/bin/python3, {script}]{keys}}}\n"


def wait_until(state):
    end = time.monotonic() + BOUND_S
    while not state():
        if time.monotonic() > end:
            raise AssertionError("not in time")
        time.sleep(0.01)


class TestCase(unittest.TestCase):
    def assertRefused(self, reason):
        """For `with`: raises Error with that reason, and a remedy."""
        case = self

        class Context:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, traceback):
                case.assertIsNotNone(kind, f"{reason} was not raised")
                if not issubclass(kind, Error):
                    return False
                case.assertEqual(error.reason, reason, str(error))
                case.assertTrue(error.remedy, str(error))
                self.error = error
                return True
        return Context()

    def script(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".py", prefix="carillon-")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name


class StubsTest(unittest.TestCase):
    def test_name_exactly_what_the_module_has(self):
        stubs = ast.parse(pathlib.Path(carillon_sdk.__file__).with_name("__init__.pyi").read_text())
        named = {node.name: node for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        constants = {node.target.id for node in stubs.body if isinstance(node, ast.AnnAssign)}
        self.assertEqual(set(named) | constants, set(carillon_sdk.__all__))
        special = {"__init__", "__enter__", "__exit__", "__array__", "__getitem__", "__setitem__", "__len__"}
        for name, node in named.items():
            if isinstance(node, ast.ClassDef) and name != "Error":
                said = {member.name for member in node.body if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef))}
                has = {member for member in vars(getattr(carillon_sdk, name)) if not member.startswith("_")}
                has |= {member for member in special & set(vars(getattr(carillon_sdk, name))) if member != "__init__"}
                self.assertEqual(said - {"__init__"}, has, name)

    def test_name_the_arguments(self):
        stubs = ast.parse(pathlib.Path(carillon_sdk.__file__).with_name("__init__.pyi").read_text())
        for node in stubs.body:
            if isinstance(node, ast.FunctionDef):
                self.compare(node, getattr(carillon_sdk, node.name))
            if isinstance(node, ast.ClassDef) and node.name != "Error":
                for member in node.body:
                    if isinstance(member, ast.FunctionDef) and not member.decorator_list and not member.name.startswith("_"):
                        self.compare(member, getattr(getattr(carillon_sdk, node.name), member.name))

    def compare(self, stub, function):
        # pybind11 writes the signature into the first line.
        line = function.__doc__.splitlines()[0]
        if "**kwargs" in line:
            return
        actual = ast.parse(f"def {self.plain(line)}: ...").body[0]
        names = [[argument.arg for argument in arguments if argument.arg != "self"] for arguments in
                 (stub.args.args, stub.args.kwonlyargs)]
        found = [[argument.arg for argument in arguments if argument.arg not in ("self", "arg0")] for arguments in
                 (actual.args.args, actual.args.kwonlyargs)]
        self.assertEqual(names, found, line)

    @staticmethod
    def plain(line):
        """`name(self: X, a: int = 1, *, b: str) -> Y` without types and values."""
        name, _, rest = line.partition("(")
        rest = rest.rpartition(") ->")[0]
        words, depth, word = [], 0, ""
        for letter in rest + ",":
            depth += (letter in "([{<") - (letter in ")]}>")
            if letter == "," and depth == 0:
                words.append(word.split(":")[0].split("=")[0].strip())
                word = ""
            else:
                word += letter
        return f"{name}({', '.join(word for word in words if word)})"


class DeviceTest(TestCase):
    """Devices in this process, of one testbed."""

    @classmethod
    def setUpClass(cls):
        cls.lab = Testbed.up(GPU)
        cls.addClassCleanup(cls.lab.down)

    def attach(self, name="py0", **more):
        device = carillon_sdk.attach(name, kind="test", directory=str(self.lab.directory), **more)
        self.addCleanup(device.close)
        return device

    def echo(self, device, slots=8, size=64):
        data, echo = device.buffer("input", (slots, size)), device.buffer("output", (slots, size))
        return data, echo, device.register("echo", {"in": data.per_slot(), "out": echo.per_slot()}, max_in_flight=slots)

    def test_arrays_are_the_memory_itself(self):
        with self.attach() as device:
            data, echo, queue = self.echo(device)
            view = echo.array
            for number in range(20):
                slot = queue.next_slot
                data[slot] = number
                self.assertEqual(queue.ring(), number + 1)
                done = queue.wait(BOUND_S)
                self.assertEqual((done.sequence, done.slot, done.ok, done.state), (number + 1, slot, True, "done"))
                self.assertTrue((view[slot] == number).all())
            self.assertEqual([ring.consumed for ring in self.lab.rings() if ring.device == "py0"], [20])
            self.assertFalse(view.flags.writeable)
            with self.assertRaises(ValueError):
                view.setflags(write=True)
            with self.assertRaises(ValueError):
                echo[0] = 1
            self.assertIs(numpy.asarray(echo).base, view.base)

    def test_after_the_end_everything_is_refused_and_arrays_stay(self):
        with self.attach() as device:
            data, echo, queue = self.echo(device)
            slot = queue.next_slot
            data[slot] = 7
            queue.ring()
            queue.wait(BOUND_S)
            array, part, written = echo.array, echo[slot], data.array
            polling = queue.poll()
        for use in [lambda: data[0], lambda: data.array, lambda: data.free(), lambda: data.part(), lambda: queue.ring(),
                    lambda: queue.poll(), lambda: next(polling), lambda: queue.wait(0), lambda: queue.free_slots,
                    lambda: queue.unregister(), lambda: queue.ring_batch(1), lambda: queue.take(numpy.zeros(1, COMPLETION)),
                    lambda: device.buffer("input", 1), lambda: device.register("echo"), lambda: device.resume(1),
                    lambda: device.check(), lambda: device.kernels(), lambda: device.report_ready(), lambda: device.launch("echo"),
                    lambda: asyncio.run(queue.completion())]:
            with self.assertRefused("DETACHED"):
                use()
        device.close()
        del data, echo, queue, device, polling
        gc.collect()
        self.assertTrue((array[slot] == 7).all() and (part == 7).all())
        written[:] = 9
        with self.attach() as device:  # the name is free again
            self.assertTrue((device.buffer("output", 64).array == 0).all())

    def test_memory_goes_with_the_last_that_looks_at_it(self):
        def mapped():
            gc.collect()
            return pathlib.Path("/proc/self/maps").read_text().count("/memfd:")
        before = mapped()
        device = carillon_sdk.attach("py0", kind="test", directory=str(self.lab.directory))
        part = device.buffer("input", (4, 4))[1][2:]
        device.close()
        del device
        self.assertGreater(mapped(), before)
        part[:] = 5
        del part
        self.assertEqual(mapped(), before)

    def test_no_object_is_made_without_a_method(self):
        class Mine(carillon_sdk.Device):
            pass
        for each in (carillon_sdk.Device, carillon_sdk.Buffer, carillon_sdk.Part, carillon_sdk.Queue, carillon_sdk.Completion, Mine):
            for make in (each, lambda: each.__new__(each), lambda: object.__new__(each)):
                self.assertRaises(TypeError, make)

    def test_refuses_hostile_values(self):
        device = self.attach(counters=["frames"])
        for shape in [0, -1, (), (3, 0), "many", None, (2, "x"), 1.5, (1,) * 33]:
            with self.assertRefused("BAD_SHAPE"):
                device.buffer("input", shape)
        with self.assertRefused("BAD_SHAPE"):
            device.buffer("input", (1 << 40, 1 << 40))
        for dtype in ["O", "no type", "V0", [("a", "O")]]:
            with self.assertRefused("BAD_DTYPE"):
                device.buffer("input", 1, dtype)
        with self.assertRefused("BAD_PLACE"):
            device.buffer("somewhere", 1)
        with self.assertRaises(Error) as large:
            device.buffer("input", 1 << 40)
        self.assertNotEqual(large.exception.reason, "")
        device.count("frames", 2)
        with self.assertRefused("NO_COUNTER"):
            device.count("frame")
        data = device.buffer("input", (4, 16))
        for offset, length in [(-1, 1), (0, 65), (64, 1), (0, -1), (1 << 62, 1 << 62)]:
            with self.assertRefused("OUT_OF_RANGE"):
                data.part(offset, length)
        gpu = device.buffer("gpu", 64)
        with self.assertRefused("NO_VIEW"):
            gpu.array
        out = device.buffer("output", (4, 16))
        with self.assertRaises(Error) as unknown:
            device.register("no_such_kernel")
        self.assertEqual((unknown.exception.reason, bool(unknown.exception.remedy)), ("UNKNOWN_KERNEL", True))
        for value in [object(), "text", 1 << 64, -(1 << 63) - 1, None, [1]]:
            with self.assertRefused("BAD_PARAMETER"):
                device.register("crc32", {"message_bytes": value})
        with self.assertRaises(Error):
            device.register("echo", {"in": data, "out": out}, max_in_flight=3)
        with self.assertRefused("BAD_SHAPE"):
            device.register("echo", block=(1, 2, 3, 4))
        other = self.attach("py1")
        with self.assertRefused("BAD_PARAMETER"):
            device.register("echo", {"in": other.buffer("input", 64), "out": out})
        queue = device.register("crc32", {"messages": PerEvent(data), "message_bytes": PerEvent(), "crcs": out.per_slot()},
                                max_in_flight=4)
        good = {"messages": data.part(), "message_bytes": 16}
        for wrong in [{}, {"message_bytes": 16}, {**good, "more": 1}, {**good, "message_bytes": -1},
                      {**good, "message_bytes": 1 << 32}, {**good, "message_bytes": 1.0}, {**good, "message_bytes": None},
                      {**good, "messages": 5}, {**good, "messages": out.part(0, 16)}, {**good, "messages": data}]:
            with self.assertRefused("BAD_PARAMETER"):
                queue.ring(**wrong)
        self.assertEqual(queue.in_flight, 0)
        for wrong in [numpy.zeros(4), numpy.zeros(4, COMPLETION), numpy.zeros((2, 2), queue.event_dtype)]:
            with self.assertRefused("BAD_DTYPE"):
                queue.ring_batch(wrong)
        for wrong in [3, "text", None]:
            with self.assertRefused("BAD_PARAMETER"):
                queue.ring_batch(wrong)
        read_only = numpy.zeros(4, COMPLETION)
        read_only.setflags(write=False)
        for wrong in [numpy.zeros(4), numpy.zeros(4, queue.event_dtype), numpy.zeros((2, 2), COMPLETION), read_only]:
            with self.assertRefused("BAD_DTYPE"):
                queue.take(wrong)
        for timeout in [-1, float("nan")]:
            with self.assertRefused("BAD_TIMEOUT"):
                queue.wait(timeout)
        with self.assertRefused("DEADLINE_EXCEEDED"):
            queue.wait(0)
        for _ in range(4):
            queue.ring(**good)
        with self.assertRefused("RING_FULL"):
            queue.ring(**good)
        self.assertTrue(all(queue.wait(BOUND_S).ok for _ in range(4)))
        queue.ring(**good)
        self.assertTrue(queue.wait(BOUND_S).ok)
        queue.unregister()
        with self.assertRefused("UNREGISTERED"):
            queue.ring(**good)

    def test_batches_ring_and_take_events_with_parameters(self):
        device = self.attach()
        data, out = device.buffer("input", (16, 32)), device.buffer("output", (8, 32))
        data[:] = numpy.arange(16)[:, None]
        queue = device.register("echo", {"in": PerEvent(data), "out": out.per_slot()}, max_in_flight=8)
        self.assertEqual(queue.event_dtype.itemsize, 16)
        events = numpy.zeros(32, queue.event_dtype)[::2]  # not every record
        events["in"]["offset"] = numpy.arange(16) * 32
        events["in"]["length"] = 32
        self.assertEqual(queue.ring_batch(events), 8)
        self.assertEqual(queue.ring_batch(events), 0)
        records, taken = numpy.zeros(32, COMPLETION)[::2], 0
        while taken < 8:
            taken += queue.take(records[taken:], timeout=BOUND_S)
        self.assertEqual(records["sequence"][:8].tolist(), list(range(1, 9)))
        self.assertEqual(records["status"][:8].tolist(), [0] * 8)
        self.assertTrue((out[records["slot"][:8]] == numpy.arange(8)[:, None]).all())
        self.assertEqual(queue.take(records), 0)
        # Out of the buffer's range: gpud fails it, and no other.
        events["in"]["offset"][1] = 16 * 32
        self.assertEqual(queue.ring_batch(events[:3]), 3)
        self.assertEqual([(done.ok, done.state, done.status) for done in (queue.wait(BOUND_S) for _ in range(3))],
                         [(True, "done", 0), (False, "failed", 3), (True, "done", 0)])
        count = device.register("null_event", {"token": 1}, max_in_flight=16)
        self.assertEqual(count.ring_batch(5), 5)
        self.assertEqual(count.ring_batch(100), 11)
        self.assertEqual(sum(1 for _ in range(16) if count.wait(BOUND_S).ok), 16)

    def test_values_of_every_type_reach_the_kernel(self):
        device = self.attach()
        x, y, z = (device.buffer(place, 4, "f4") for place in ("input", "input", "output"))
        x[:], y[:] = [1, 2, 3, 4], [10, 20, 30, 40]
        queue = device.register("vector_add", {"a": x, "b": y, "c": z})
        queue.ring()
        self.assertTrue(queue.wait(BOUND_S).ok)
        self.assertEqual(z.array.tolist(), [11, 22, 33, 44])
        device.launch("vector_add", {"a": x, "b": x, "c": z})
        self.assertEqual(z.array.tolist(), [2, 4, 6, 8])
        gpu = device.buffer("gpu", 4, "f4")
        device.copy(y.part(), gpu.part())
        device.copy(gpu.part(4, 8), z.part(0, 8))
        self.assertEqual(z.array.tolist(), [20, 30, 6, 8])
        self.assertIn("vector_add", device.kernels())

    def test_await_gives_each_queue_its_completions(self):
        device = self.attach()
        queues = [self.echo(device)[2] for _ in range(3)]

        async def take(queue, count):
            numbers = []
            for _ in range(count):
                queue.ring()
                numbers.append((await asyncio.wait_for(queue.completion(), BOUND_S)).sequence)
            return numbers

        async def all_queues():
            return await asyncio.gather(*(take(queue, 50) for queue in queues))

        for begin in (1, 51):  # in a loop of its own each time
            self.assertEqual(asyncio.run(all_queues()), [list(range(begin, begin + 50))] * 3)

        # Tasks that share a queue have its completions in the order in which they came.
        async def request():
            sequence = queues[1].ring()
            return sequence, (await asyncio.wait_for(queues[1].completion(), BOUND_S)).sequence

        async def shared():
            return [pair for _ in range(20) for pair in await asyncio.gather(*(request() for _ in range(8)))]
        for rung, done in asyncio.run(shared()):
            self.assertEqual(rung, done)

        async def cancelled():
            waiting = asyncio.ensure_future(queues[0].completion())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            self.assertTrue(waiting.cancelled())
            queues[0].ring()
            return (await asyncio.wait_for(queues[0].completion(), BOUND_S)).sequence
        self.assertEqual(asyncio.run(cancelled()), 101)

        async def closed():
            waiting = asyncio.ensure_future(queues[0].completion())
            await asyncio.sleep(0)
            device.close()
            await asyncio.wait_for(waiting, BOUND_S)
        with self.assertRefused("DETACHED"):
            asyncio.run(closed())

    def test_a_wait_lets_other_threads_run_and_ctrl_c_ends_it(self):
        device = self.attach()
        queue = self.echo(device)[2]

        def press():
            # Until the main thread waits, which is so only without the interpreter's lock.
            def waits():
                try:
                    return queue.in_flight < 0
                except Error as error:
                    return error.reason == "BUSY"
            wait_until(waits)
            with self.assertRefused("BUSY"):
                device.resume(0)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=press)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            queue.wait()
        thread.join()
        queue.ring()
        self.assertTrue(queue.wait(BOUND_S).ok)

    def interrupt(self, call, ready):
        """Presses Ctrl-C in `call` once `ready()`; it must end long before its own deadline does that."""
        def press():
            wait_until(ready)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=press)
        start = time.monotonic()
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            call()
        thread.join()
        self.assertLess(time.monotonic() - start, LONG_S)

    def test_ctrl_c_ends_a_launch_here_and_in_gpud(self):
        device = self.attach()
        self.interrupt(lambda: device.launch("busy", {"iterations": 1_000_000}, grid=10_000_000, timeout=LONG_S),
                       lambda: self.lab.status().longest_wait.kernel == "busy")
        wait_until(lambda: self.lab.status().longest_wait.kernel == "")
        device.launch("busy", {"iterations": 1}, timeout=BOUND_S)

    def test_ctrl_c_ends_calls_that_gpud_does_not_answer(self):
        device = self.attach(timeout=LONG_S)
        data, memory = device.buffer("input", 64), device.buffer("gpu", 64)
        unused = device.buffer("input", 64)
        ins, outs, queue = self.echo(device)
        slots = {"in": ins.per_slot(), "out": outs.per_slot()}

        def runs():
            try:
                device.resume(0)
            except Error as error:
                return error.reason == "BUSY"
        calls = [lambda: device.copy(data.part(), memory.part(), timeout=LONG_S), lambda: device.buffer("input", 64),
                 lambda: device.register("echo", slots, max_in_flight=8), device.report_ready, queue.unregister, unused.free]
        self.lab.signal("gpud", signal.SIGSTOP)
        try:
            for call in calls:
                self.interrupt(call, runs)
            # Who presses, and who attaches.
            threads = len(os.listdir("/proc/self/task")) + 2
            self.interrupt(lambda: self.attach("py1", timeout=LONG_S), lambda: len(os.listdir("/proc/self/task")) >= threads)
        finally:
            self.lab.signal("gpud", signal.SIGCONT)
        device.copy(data.part(), memory.part(), timeout=BOUND_S)
        queue = self.echo(device)[2]
        queue.ring()
        self.assertTrue(queue.wait(BOUND_S).ok)

    def test_errors_of_gpud_have_a_remedy(self):
        device = self.attach()
        with self.assertRefused("UNKNOWN_BUFFER"):
            device.register("echo", {"in": 5})
        with self.assertRefused("BAD_BINDING"):
            device.register("echo")
        with self.assertRefused("BAD_NAME"):
            self.attach("Camera 1")
        with self.assertRefused("BAD_RING_SIZE"):
            device.register("echo", max_in_flight=1 << 30)
        with tempfile.TemporaryDirectory() as nobody, self.assertRefused("UNAVAILABLE"):
            carillon_sdk.attach("py1", kind="test", directory=nobody)
        with self.assertRefused("BAD_NAME") as refused:
            carillon_sdk.attach(kind="test", directory=str(self.lab.directory))
        self.assertIn("CARILLON_DEVICE_NAME", refused.error.remedy)
        with self.assertRefused("INVALID_ARGUMENT") as refused:
            carillon_sdk.attach("py1", kind="test")
        self.assertIn("give its directory", refused.error.remedy)

    @staticmethod
    def is_busy(queue):
        """Whether another thread waits there."""
        try:
            return queue.in_flight < 0
        except Error as error:
            return error.reason == "BUSY"

    def test_a_signal_handler_is_refused_what_the_wait_needs(self):
        device = self.attach()
        queue = self.echo(device)[2]
        reasons = []

        def handle(number, frame):
            for use in (queue.unregister, queue.ring, lambda: device.resume(0)):
                try:
                    use()
                except Error as error:
                    reasons.append(error.reason)
            raise InterruptedError
        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def send():
            wait_until(lambda: self.is_busy(queue))
            os.kill(os.getpid(), signal.SIGUSR1)
        thread = threading.Thread(target=send)
        thread.start()
        with self.assertRaises(InterruptedError):
            queue.wait(BOUND_S)
        thread.join()
        self.assertEqual(reasons, ["BUSY"] * 3)
        queue.ring()
        self.assertTrue(queue.wait(BOUND_S).ok)

    def test_values_that_use_the_queue_themselves_are_converted_first(self):
        device = self.attach()
        data, out = device.buffer("input", (4, 16)), device.buffer("output", (4, 16))
        queue = device.register("crc32", {"messages": PerEvent(data), "message_bytes": PerEvent(), "crcs": out.per_slot()},
                                max_in_flight=4)

        class Number:
            def __init__(self, do):
                self._do = do

            def __index__(self):
                self._do()
                return 16
        good = {"messages": data.part(), "message_bytes": 16}

        def fill():
            for _ in range(4):
                queue.ring(**good)
        with self.assertRefused("RING_FULL"):
            queue.ring(**{**good, "message_bytes": Number(fill)})
        self.assertEqual(queue.in_flight, 4)
        for _ in range(4):
            self.assertTrue(queue.wait(BOUND_S).ok)
        with self.assertRefused("UNREGISTERED"):
            queue.ring(**{**good, "message_bytes": Number(queue.unregister)})
        queue = device.register("null_event", {"token": 1})
        with self.assertRefused("UNREGISTERED"):
            queue.ring_batch(Number(queue.unregister))

    def test_a_forked_process_is_refused(self):
        device = self.attach()
        queue = self.echo(device)[2]
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            reasons = []
            for use in (device.check, queue.ring, device.close):
                try:
                    use()
                    reasons.append("fine")
                except Error as error:
                    reasons.append(error.reason)
            os.write(write, " ".join(reasons).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            self.assertEqual(answer.read(), "FORKED FORKED fine")
        os.waitpid(child, 0)
        queue.ring()
        self.assertTrue(queue.wait(BOUND_S).ok)

    def test_a_daemon_thread_that_waits_lets_the_program_end(self):
        done = subprocess.run(["/usr/bin/python3", "-P", "-c", f"""
import carillon_sdk, threading
device = carillon_sdk.attach("py9", kind="test", directory={str(self.lab.directory)!r})
queue = device.register("null_event", {{"token": 1}})
threading.Thread(target=queue.wait, daemon=True).start()
while True:
    try:
        queue.in_flight
    except carillon_sdk.Error:
        break
"""], capture_output=True, text=True, timeout=BOUND_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_closing_ends_the_wait_of_another_thread(self):
        device = self.attach()
        queue = self.echo(device)[2]
        reasons = []

        def wait():
            try:
                queue.wait()
            except Error as error:
                reasons.append(error.reason)
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: self.is_busy(queue))
        device.close()
        thread.join(BOUND_S)
        self.assertEqual(reasons, ["DETACHED"])

    def test_buffers_that_are_freed_leave_nothing(self):
        device = self.attach()

        def turn(times):
            for _ in range(times):
                with device.buffer("input", (4, 1024)) as buffer:
                    buffer[0] = 1
                    part = buffer[1]
                    with self.assertRefused("VIEWS_ALIVE"):
                        buffer.free()
                    del part
                with self.assertRefused("FREED"):
                    buffer[0]
        turn(1000)
        gc.collect()
        objects, before = len(gc.get_objects()), self.resident()
        turn(10000)
        gc.collect()
        self.assertLess(len(gc.get_objects()) - objects, 100)
        # 40 MB if their bytes stayed, and 1 MB for each 100 bytes of any other kind.
        self.assertLess(self.resident() - before, 1 << 20)

    @staticmethod
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def test_attach_says_what_is_wrong(self):
        device = self.attach()
        with self.assertRaises(Error) as taken:
            self.attach()
        self.assertIn("'py0' is attached already", str(taken.exception))
        self.assertTrue(taken.exception.reason and taken.exception.remedy)
        with self.assertRaisesRegex(Error, "cannot reach gpud|No such file"):
            carillon_sdk.attach("py2", kind="test", directory="/nonexistent")
        with self.assertRaises(Error):
            self.attach("Not A Name")
        self.assertFalse(device.may_resume)
        device.check()


class BenchTest(unittest.TestCase):
    def test_measures_both_figures(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([programs.bin_directory() / "tools/python/carillon_sdk_bench", "--quick", "--json", "--out", out],
                                  capture_output=True, text=True, timeout=BOUND_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report, json.loads(pathlib.Path(out, "python.json").read_text()))
            for figure in ("null_event_us", "batch_millions_per_s"):
                self.assertGreater(report[figure]["p50"], 0)


class TestbedTest(TestCase):
    @staticmethod
    def answers(lab):
        """Whether the connection to the next gpud is there."""
        try:
            return lab.status().devices > 0
        except TestbedError:
            return False

    def test_the_sensor_runs_as_kind_exec(self):
        with Testbed.up(GPU + device_lines(SENSOR, wait_ready="false")) as lab:
            wait_until(lambda: lab.process("py0")["state"] == "ended")
            self.assertEqual(pathlib.Path(lab.process("py0")["log"]).read_text(), "1000 events, all checksums right\n")
            lab.ledger().expect_nothing_lost()

    def test_a_device_that_is_killed_leaves_the_ledger_whole(self):
        with Testbed.up(GPU + device_lines(self.script(TAKEN + ECHOER), restart="on_failure")) as lab:
            for name, point in [("rings", "device.ring"), ("takes", "device.take")]:
                lab.inject(name, process="py0", point=point, nth=300, action="kill")
                lab.wait_for_strike(name)
                lab.wait_for_restart("py0", times=1 if name == "rings" else 2)
                lab.wait_for_progress("py0", 100)
            lab.ledger().expect_nothing_lost()

    def test_a_device_goes_on_with_the_next_gpud(self):
        with Testbed.up(RESTARTED_GPU + device_lines(self.script(TAKEN + ECHOER))) as lab:
            lab.inject("gpud-dies", process="gpud", point="gpud.completed", nth=300, action="kill")
            lab.wait_for_strike("gpud-dies")
            lab.wait_for_restart("gpud")
            wait_until(lambda: self.answers(lab))
            lab.wait_for_progress("py0", 100)
            self.assertEqual(lab.process("py0")["restarts"], 0)
            self.assertEqual(pathlib.Path(lab.process("py0")["log"]).read_text(), "resumed\n")
            lab.ledger().expect_nothing_lost()

    def test_a_device_that_breaks_the_protocol_is_evicted_and_told_so(self):
        with Testbed.up(GPU + device_lines(self.script(TAKEN + ECHOER))) as lab:
            # Rings that no entry belongs to.
            lab.inject("double", process="py0", point="device.ring", nth=100, action="storm", count=1000)
            wait_until(lambda: lab.process("py0")["state"] == "ended")
            self.assertIn("Error: EVICTED: gpud", pathlib.Path(lab.process("py0")["log"]).read_text())
            self.assertEqual(lab.status().devices, 0)

    def test_a_sleeper_goes_on_after_resume(self):
        with Testbed.up(RESTARTED_GPU) as lab:
            with carillon_sdk.attach("py0", kind="test", directory=str(lab.directory)) as device:
                queue = device.register("null_event", {"token": 1})

                async def sleep():
                    waiting = asyncio.ensure_future(queue.completion())
                    await asyncio.sleep(0)
                    os.kill(lab.process("gpud")["pid"], signal.SIGKILL)
                    wait_until(lambda: device.may_resume)
                    device.resume(BOUND_S)
                    queue.ring()
                    return await asyncio.wait_for(waiting, BOUND_S)
                self.assertEqual(asyncio.run(sleep()).sequence, 1)

    def test_resume_of_a_session_that_was_ended_says_so_at_once(self):
        with Testbed.up(GPU + device_lines(self.script(TAKEN + ECHOER.replace("device.resume(timeout=60)", "")
                        .replace('("PEER_DEAD", "RESTARTING")', '("EVICTED",)')
                        .replace("        print(\"resumed\"", "        device.resume(timeout=3600)\n            print(\"resumed\"")
                        .replace("            assert echo.lost and not data.lost\n            assert echo.array is array\n", "")))) as lab:
            lab.inject("double", process="py0", point="device.ring", nth=100, action="storm", count=1000)
            wait_until(lambda: lab.process("py0")["state"] == "ended")
            log = pathlib.Path(lab.process("py0")["log"]).read_text()
            self.assertIn("resume(timeout=3600)", log)
            self.assertIn("Error: EVICTED: gpud", log)

    def test_a_lost_completion_that_is_waited_for_is_lost_in_the_ledger(self):
        for wait in ["queue.wait(0.5)", "asyncio.run(take())"]:
            script = self.script(f"""
import asyncio, carillon_sdk, time
async def take():
    await asyncio.wait_for(queue.completion(), 0.5)
device = carillon_sdk.attach(kind="test")
queue = device.register("null_event", {{"token": 1}})
device.report_ready()
try:
    while True:
        queue.ring()
        {wait}
except (carillon_sdk.Error, TimeoutError):
    print("in vain", flush=True)
time.sleep(3600)
""")
            with self.subTest(wait), Testbed.up(GPU + device_lines(script)) as lab:
                lab.inject("lost", process="gpud", point="gpud.complete", nth=10, action="lose")
                lab.wait_for_strike("lost")
                wait_until(lambda: "in vain" in pathlib.Path(lab.process("py0")["log"]).read_text())
                self.assertEqual(lab.ledger().events["lost"], 1)

    def test_gpuds_death_ends_poll_wait_and_await(self):
        with Testbed.up(GPU) as lab:
            with carillon_sdk.attach("py0", kind="test", directory=str(lab.directory)) as device:
                queue = device.register("null_event", {"token": 1})

                async def die():
                    waiting = asyncio.ensure_future(queue.completion())
                    await asyncio.sleep(0)
                    os.kill(lab.process("gpud")["pid"], signal.SIGKILL)
                    await asyncio.wait_for(waiting, BOUND_S)
                for use in [lambda: asyncio.run(die()), lambda: queue.wait(), lambda: list(queue.poll()), lambda: device.check(),
                            lambda: device.buffer("input", 1)]:
                    with self.assertRefused("PEER_DEAD"):
                        use()
                self.assertTrue(device.may_resume)
                with self.assertRaises(Error) as none:
                    device.resume(timeout=0)
                self.assertEqual(none.exception.reason, "PEER_DEAD")

    def test_carillon_exec_runs_a_program_in_the_testbed(self):
        with Testbed.up(GPU) as lab:
            def run(*words):
                environment = dict(os.environ, CARILLON_RUNTIME_DIR=str(lab.directory.parent), PYTHONPATH="/before",
                                   CARILLON_BIN_DIR=str(programs.bin_directory()))
                return subprocess.run([programs.bin_directory() / "tools/cli/carillon", "exec", *words], env=environment,
                                      capture_output=True, text=True, timeout=BOUND_S)
            done = run("--", "/usr/bin/python3", str(SENSOR))
            self.assertEqual((done.returncode, done.stdout), (0, "1000 events, all checksums right\n"), done.stderr)
            done = run("--", "/usr/bin/python3", "-c", "import sys, carillon_testbed; print(sys.path[-1] and sys.argv[1:]); sys.exit(7)",
                       "-o", "--name", "--")
            self.assertEqual((done.returncode, done.stdout), (7, "['-o', '--name', '--']\n"), done.stderr)
            done = run("--name", "lab", "printenv", "CARILLON_TESTBED_DIR", "PYTHONPATH")
            self.assertRegex(done.stdout, f"^{lab.directory}\n/.*/tools/python/lib:/before\n$")
            done = run("--name", "other", "--", "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("other", done.stderr)
            done = run("--", "no-such-program")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no-such-program", done.stderr)


if __name__ == "__main__":
    unittest.main()
