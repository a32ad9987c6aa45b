"""Devices in Python: the EDGE API of docs/your_own.md.

    import carillon_sdk

    with carillon_sdk.attach("dev0", kind="echoer") as device:
        data = device.buffer("input", (8, 64))     # 8 slots of 64 bytes
        echo = device.buffer("output", (8, 64))
        queue = device.register("echo", {"in": data.per_slot(), "out": echo.per_slot()}, max_in_flight=8)
        slot = queue.next_slot
        data[slot] = 7
        queue.ring()
        queue.wait(timeout=1)
        assert (echo[slot] == 7).all()

`carillon exec -- PROGRAM` and devices of `kind: exec` find it; __init__.pyi says what each function does.
"""

from ._error import Error

try:
    from ._edge import COMPLETION, Buffer, Completion, Device, Part, PerEvent, Queue, Taken, attach
except ModuleNotFoundError as missing:
    if missing.name != f"{__name__}._edge":
        raise
    raise ImportError("carillon_sdk's module in C++ is not here: it is in bazel-bin/tools/python/lib, which `carillon exec` names, "
                      "if pybind11-dev, libpython3-dev and python3-numpy were there when ./carillon built it") from missing

__all__ = ["COMPLETION", "Buffer", "Completion", "Device", "Error", "Part", "PerEvent", "Queue", "Taken", "attach"]
