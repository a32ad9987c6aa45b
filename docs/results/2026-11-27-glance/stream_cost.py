#!/usr/bin/python3
"""What one reader of Admin.StreamSnapshots costs gpud, with 64 devices that do nothing: `stream_cost.py SPAN_S ROUNDS NAME=BIN_DIR...`.

BIN_DIR is a bazel-bin with //gpu_daemon:gpud, //tools/cli:carillon, //proto:python and //tools/python:lib. Each build has a testbed
of its own, the builds by turns (A B B A), and in each a span without a reader, two with one, and one without. CPU time is the
scheduler's (schedstat), of all threads of gpud. Prints JSON.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

PER_PROCESS = 32  # gpud takes at most 63 devices of a process


def open_packages():
    sys.path.insert(0, os.environ["CARILLON_BIN_DIR"] + "/tools/python/lib")


def hold_devices(directory, first):
    open_packages()
    import carillon_sdk
    devices = [carillon_sdk.attach(f"d{i}", kind="bench", directory=directory, counters=["rx", "tx"])
               for i in range(first, first + PER_PROCESS)]
    queues = [device.register("null_event", {"token": 0}, launch_path="edge") for device in devices]
    print("ready", len(queues), flush=True)
    sys.stdin.read()


def cpu_ns(pid):
    return sum(int(file.read_text().split()[0]) for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def span(pid, seconds):
    before, start = cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_ns(pid) - before) / 1e7 / (time.monotonic() - start)


def one_testbed(seconds):
    open_packages()
    import grpc
    from carillon_testbed import Testbed, programs
    with Testbed.up("gpu: {backend: cpu, memory: 512MiB, ekt_entries: 128}\n") as lab:
        holders = [subprocess.Popen([sys.executable, __file__, "--hold", str(lab.directory), str(first)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE) for first in (0, PER_PROCESS)]
        for holder in holders:
            assert holder.stdout.readline().startswith(b"ready")
        admin, _ = programs.messages()
        gpud = lab.process("gpud")["pid"]

        def with_reader():
            channel = grpc.insecure_channel(f"unix:{lab.directory}/operator.sock")
            stream = channel.unary_stream("/carillon.v1.Admin/StreamSnapshots", response_deserializer=len,
                                          request_serializer=admin.StreamSnapshotsRequest.SerializeToString)(
                                              admin.StreamSnapshotsRequest(interval_ms=100, histograms_ms=1000))
            sizes = []

            def read():
                try:
                    sizes.extend(stream)
                except grpc.RpcError:  # cancelled
                    pass
            thread = threading.Thread(target=read)
            thread.start()
            time.sleep(0.5)  # past the whole picture
            percent = span(gpud, seconds)
            stream.cancel()
            thread.join()
            channel.close()
            time.sleep(0.2)
            return percent
        closed = [span(gpud, seconds)]
        opened = [with_reader(), with_reader()]
        closed.append(span(gpud, seconds))
        for holder in holders:
            holder.stdin.close()
            holder.wait()
        return {"closed": closed, "open": opened}


def main():
    seconds, rounds = sys.argv[1], int(sys.argv[2])
    builds = dict(word.split("=", 1) for word in sys.argv[3:])
    runs = {name: [] for name in builds}
    report = {"span_s": float(seconds), "cpus": os.cpu_count(), "load_before": os.getloadavg()[0]}
    for _ in range(rounds):
        for name in [*builds, *reversed(builds)]:
            environment = dict(os.environ, CARILLON_BIN_DIR=os.path.realpath(builds[name]))
            done = subprocess.run([sys.executable, __file__, "--one", seconds], env=environment, stdout=subprocess.PIPE, check=True)
            runs[name].append(json.loads(done.stdout))
    report["load_after"] = os.getloadavg()[0]
    report["percent_of_a_core"] = runs
    report["stream"] = {name: [statistics.mean(run["open"]) - statistics.mean(run["closed"]) for run in all_runs]
                        for name, all_runs in runs.items()}
    report["control"] = {name: [run["closed"][1] - run["closed"][0] for run in all_runs] for name, all_runs in runs.items()}
    print(json.dumps(report, indent=2))


if sys.argv[1] == "--hold":
    hold_devices(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "--one":
    print(json.dumps(one_testbed(float(sys.argv[2]))))
else:
    main()
