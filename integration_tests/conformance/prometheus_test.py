"""Prometheus takes the dashboard's metrics: prometheus_test.py FOLDER-OF-ITS-PROGRAMS.

promtool has nothing to say against them, a server scrapes them with the token and not
without, and every query of docs/grafana/carillon.json returns data.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

BOUND_S = 120
TOPOLOGY = """
name: scraped
gpu: {backend: cpu, memory: 64MiB, trace: true}
faults: true
dashboard: true
devices:
  - {name: fpga0, kind: fpga, size: 64x64, fps: 200}
"""
CONFIGURATION = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: carillon
    authorization: {credentials_file: "%(token)s"}
    static_configs: [{targets: ["%(target)s"]}]
  - job_name: without_token
    static_configs: [{targets: ["%(target)s"]}]
"""


def eventually(what, state):
    end = time.monotonic() + BOUND_S
    while True:
        found = state()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (BOUND_S, what))
        time.sleep(0.2)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Prometheus:
    def __init__(self, programs, folder, token, target):
        configuration = folder / "prometheus.yml"
        configuration.write_text(CONFIGURATION % {"token": token, "target": target})
        self.address = "127.0.0.1:%d" % free_port()
        self.process = subprocess.Popen(
            [programs / "prometheus", "--config.file=%s" % configuration,
             "--storage.tsdb.path=%s" % (folder / "data"), "--web.listen-address=" + self.address],
            stdout=subprocess.DEVNULL, stderr=open(folder / "prometheus.log", "w"))

    def query(self, expression):
        assert self.process.poll() is None, "Prometheus has ended"
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen("http://%s/api/v1/query?%s" % (self.address, query)) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                return []
            raise AssertionError("%s: %s" % (expression, error.read()))
        except urllib.error.URLError:  # it is not up yet
            return []


def check(programs, folder):
    carillon = "tools/cli/carillon"
    (folder / "topology.yaml").write_text(TOPOLOGY)
    subprocess.run([carillon, "up", "-d", "-f", folder / "topology.yaml"], check=True)
    prometheus = None
    try:
        testbed = pathlib.Path(subprocess.check_output([carillon, "ps", "--directory"], text=True).strip())
        url = (testbed / "dashboard.url").read_text().split()[0]
        token = testbed / "dashboard.token"
        request = urllib.request.Request(
            url + "metrics", headers={"Authorization": "Bearer " + token.read_text().strip()})

        def metrics():
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
            return text if b"carillon_event_stage_seconds_bucket" in text else None

        text = eventually("metrics of every stage", metrics)
        checked = subprocess.run([programs / "promtool", "check", "metrics"], input=text,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert checked.returncode == 0 and not checked.stdout.strip(), checked.stdout.decode()

        prometheus = Prometheus(programs, folder, token, url.split("/")[2])
        eventually("a scrape", lambda: prometheus.query('up{job="carillon"} == 1'))
        eventually("a refusal", lambda: prometheus.query('up{job="without_token"} == 0'))
        dashboard = json.loads(pathlib.Path("docs/grafana/carillon.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert len(expressions) >= 10, expressions
        for expression in expressions:
            expression = expression.replace("$__rate_interval", "10s")
            found = eventually(expression, lambda: [
                one for one in prometheus.query(expression) if one["value"][1] != "NaN"])
            print("%d series: %s" % (len(found), expression))
        (rate,) = prometheus.query('sum(rate(carillon_events_total{result="done"}[10s]))')
        assert float(rate["value"][1]) > 0, rate
    finally:
        if prometheus:
            prometheus.process.kill()
            prometheus.process.wait()
        subprocess.run([carillon, "down", "--all"], check=True)


def main():
    # A socket's path is short.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        os.environ["CARILLON_BIN_DIR"] = os.getcwd()
        os.environ["CARILLON_RUNTIME_DIR"] = str(folder / "run")
        (folder / "run").mkdir(mode=0o700)
        check(pathlib.Path(sys.argv[1]), folder)


if __name__ == "__main__":
    main()
