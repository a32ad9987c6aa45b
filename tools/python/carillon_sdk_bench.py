#!/usr/bin/python3
"""What an event costs a device in Python, on a testbed of its own: `carillon bench python`, or with --quick one round.

One null event at a time, rung and waited for; and batches of them, rung and taken at once, as fast as they go. Short rounds,
in turns, so that what else the machine does is seen as their spread. --out DIR writes python.json.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

# Where it was built, the packages lie beside it.
sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent / "lib"))

import carillon_sdk
import numpy
from carillon_testbed import Testbed

GPU = "gpu: {backend: cpu, memory: 64MiB}\n"
RING = 4096
SINGLES = 2000  # events a round
BATCHES = 200_000
WAIT_S = 10
# What is wanted of a machine that does nothing else (issue 20).
MOST_US, LEAST_MILLIONS = 3, 1


def single(queue):
    """Microseconds from ring() to the end of wait(), the mean of a round."""
    start = time.perf_counter()
    for _ in range(SINGLES):
        queue.ring()
        queue.wait(WAIT_S)
    return (time.perf_counter() - start) / SINGLES * 1e6


def batches(queue, records):
    """Millions of events a second, of a round."""
    taken, start = 0, time.perf_counter()
    while taken < BATCHES:
        queue.ring_batch(RING)
        count = queue.take(records, WAIT_S)
        assert count and not numpy.count_nonzero(records["status"][:count])
        taken += count
    rate = taken / (time.perf_counter() - start) / 1e6
    while queue.in_flight:
        queue.take(records, WAIT_S)
    return rate


def spread(values):
    values = sorted(values)
    return {"p50": statistics.median(values), "least": values[0], "most": values[-1]}


def show(report):
    for name, unit, wanted in [("null_event_us", "us", f"<= {MOST_US}"), ("batch_millions_per_s", "M/s", f">= {LEAST_MILLIONS}")]:
        figure = report[name]
        print(f"{name:<22}{figure['p50']:8.2f} [{figure['least']:.2f} to {figure['most']:.2f}] {unit}, wanted {wanted}")
    print(f"{report['rounds']} rounds on {report['cpus']} CPUs, load {report['load_before']:.1f} before and "
          f"{report['load_after']:.1f} after")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--out", type=pathlib.Path, help="the folder for python.json")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 40
    singles, rates = [], []
    before = os.getloadavg()[0]
    with Testbed.up(GPU) as lab, carillon_sdk.attach("bench", kind="bench", directory=str(lab.directory)) as device:
        one, many = (device.register("null_event", {"token": 0}, max_in_flight=size) for size in (32, RING))
        records = numpy.zeros(RING, carillon_sdk.COMPLETION)
        for _ in range(rounds):
            singles.append(single(one))
            rates.append(batches(many, records))
    report = {"bench": "python", "rounds": rounds, "cpus": os.cpu_count(), "load_before": before, "load_after": os.getloadavg()[0],
              "null_event_us": spread(singles), "batch_millions_per_s": spread(rates)}
    if arguments.json:
        print(json.dumps(report))
    else:
        show(report)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "python.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
