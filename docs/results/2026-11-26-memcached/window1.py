"""One request at a time: Carillon's nic and gpud beside `memcached -t 1`, in turn (A B B A).

  gcc -O2 -o window1_client window1_client.c
  window1.py FOLDER_OF_THE_PROGRAMS ROUNDS SECONDS OUT.json
"""

import json
import os
import subprocess
import sys
import tempfile
import time

programs, rounds, seconds, out = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))


def cpu_ns(pid):
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0])
               for task in os.listdir(tasks))


def ask(port, how_long, mode):
    """Requests a second, bad answers, lost ones."""
    return subprocess.run([f"{here}/window1_client", str(port), how_long, mode], check=True,
                          capture_output=True, text=True).stdout.split()


processes = []
with tempfile.TemporaryDirectory() as place:
    def start(*argv):
        processes.append(subprocess.Popen(argv))
        time.sleep(2)
        return processes[-1].pid

    try:
        gpud = start(f"{programs}/gpu_daemon/gpud", "--dir", f"{place}/testbed", "--backend", "cpu",
                     "--log-level", "warn")
        nic = start(f"{programs}/devices/nic/nic", "--dir", f"{place}/testbed", "--name", "nic0",
                    "--udp-port", "23771", "--tcp-port", "23771", "--log-level", "warn")
        memcached = start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", "23772", "-U",
                          "23772", "-t", "1")
        servers = {"carillon": (23771, [gpud, nic]), "memcached": (23772, [memcached])}
        results = []
        for mode in ("block", "spin"):
            for _ in range(int(rounds)):
                for who in ("carillon", "memcached", "memcached", "carillon"):
                    port, pids = servers[who]
                    ask(port, "0.1", mode)
                    before = [cpu_ns(pid) for pid in pids]
                    rate, bad, lost = ask(port, seconds, mode)
                    requests = float(rate) * float(seconds)
                    used = [(cpu_ns(pid) - ns) / 1000 / requests
                            for pid, ns in zip(pids, before)]
                    results.append({"mode": mode, "who": who, "rate": float(rate),
                                    "bad": int(bad), "lost": int(lost), "cpu_us": used,
                                    "load": os.getloadavg()[0]})
        json.dump(results, open(out, "w"), indent=1)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
