"""Draws what `carillon bench launch` measured: plot_launch.py RESULT.json PLOT.png"""
import plotting

STAGES = (
    # stage, label, colour
    ("due_to_rung", "due to rung", "#cccccc"),
    ("rung_to_seen", "rung to seen", plotting.BLUE),
    ("seen_to_queued", "seen to queued", "#7aa6d0"),
    ("queued_to_dispatched", "queued to dispatched", "#b08820"),
    ("dispatched_to_finished", "kernel", plotting.GREEN),
    ("finished_to_completed", "finished to completion seen", plotting.RED),
)


def names_of(cells, key):
    return list(dict.fromkeys(cell[key] for cell in cells))


def at(cell, *keys):
    """The value behind `keys`, or None where the cell was not measured."""
    for key in keys:
        if not isinstance(cell, dict) or key not in cell:
            return None
        cell = cell[key]
    if isinstance(cell, dict) and cell.get("runs") == 0:
        return None
    return cell


def draw_bars(axes, cells, value_of, title, scale, labels, dots_of=None):
    """A group of bars for each workload, one a path; line: range of the runs."""
    paths, workloads = names_of(cells, "path"), names_of(cells, "workload")
    width = 0.8 / len(paths)
    for number, path in enumerate(paths):
        label = path
        for place, workload in enumerate(workloads):
            cell = next((c for c in cells if c["path"] == path and c["workload"] == workload), {})
            value = value_of(cell)
            x = place + (number - (len(paths) - 1) / 2) * width
            if value is None:
                axes.annotate(cell.get("status", ""), (x, 0), xycoords=("data", "axes fraction"), rotation=90, fontsize=6, ha="center", va="bottom")
                continue
            median, spread = plotting.bar_and_range(value, scale)
            axes.bar(x, median, width * 0.9, yerr=spread, color=plotting.COLOURS[number % len(plotting.COLOURS)], ecolor=plotting.RANGE, capsize=1.5, label=label)
            label = None
            axes.annotate(plotting.short(median), (x, median), xytext=(0, 2), textcoords="offset points", fontsize=6, ha="center")
            dots = dots_of and dots_of(cell)
            if dots:
                axes.plot([x], [dots["median"] * scale], "o", color="black", markersize=3)
    axes.set_yscale("log")
    axes.set_xticks(range(len(workloads)), [labels.get(name, name) for name in workloads], fontsize=8)
    plotting.head(axes, title, "y")
    axes.margins(y=0.15)
    axes.legend(fontsize=7, ncols=len(paths), loc="upper left")


def draw_breakdown(axes, cells, title):
    """Stacked stages; a group of bars for each batch size, one a path."""
    paths, batches = names_of(cells, "path"), names_of(cells, "workload")
    width = 0.8 / len(paths)
    labelled = set()
    for place, batch in enumerate(batches):
        for number, path in enumerate(paths):
            cell = next((c for c in cells if c["path"] == path and c["workload"] == batch), {})
            x = place + (number - (len(paths) - 1) / 2) * width
            means = [(stage, at(cell, "stages", stage[0], "mean_ns")) for stage in STAGES]
            total = sum(mean["median"] for _, mean in means if mean)
            if not total:
                continue
            # Shares, as the paper draws them, with the sum above the bar.
            below = 0
            for (name, label, colour), mean in means:
                share = 100 * mean["median"] / total if mean else 0
                axes.bar(x, share, width * 0.9, bottom=below, color=colour, label=None if name in labelled else label)
                labelled.add(name)
                below += share
            text = f"{path} {plotting.short(total * 1e-3)}" + ("" if cell["kept_up"] else " *")
            axes.annotate(text, (x, 102), rotation=90, fontsize=6, ha="center", va="bottom")
    axes.set_ylim(0, 215)
    axes.set_yticks(range(0, 101, 20))
    axes.set_xticks(range(len(batches)), batches, fontsize=8)
    axes.set_title(title, fontsize=9, loc="left")
    axes.legend(fontsize=7, ncols=len(STAGES), loc="upper left")


def draw_co_runner(axes, cells):
    rows = [c for c in cells if c["status"] == "measured"]
    groups = [
        ("compute", "idle"), ("compute", "round_trips"), ("compute", "pipelined"),
        ("memory", "idle"), ("memory", "round_trips"), ("memory", "pipelined"),
    ]
    width = 0.8 / max(1, len(rows))
    for number, cell in enumerate(rows):
        places, values = [], []
        for place, (kind, load) in enumerate(groups):
            value = at(cell, kind, "co_runner_slowdown", load)
            if value:
                places.append(place + (number - (len(rows) - 1) / 2) * width)
                values.append(value["median"])
        axes.bar(places, values, width * 0.9, color=plotting.COLOURS[number % len(plotting.COLOURS)], label=cell["path"])
    axes.axhline(1, color=plotting.GREY, linewidth=0.8)
    names = {"idle": "path idle", "round_trips": "one in flight", "pipelined": "peak rate"}
    axes.set_xticks(range(len(groups)), [f"{kind},\n{names[load]}" for kind, load in groups], fontsize=7)
    plotting.head(axes, "slowdown of CPU-bound co-runners, x (EDGE Fig. 4a)", "y")
    axes.legend(fontsize=7, ncols=max(1, len(rows)), loc="upper left")
    axes.margins(y=0.2)


def panels_of(document):
    labels = {w["name"]: w["label"] for w in document["workloads"]}
    panels = []
    if "latency" in document:
        cells = document["latency"]
        for title, value_of, scale, dots_of in (
            ("doorbell to completion, us: p50, one in flight (line: range of runs, dot: p99)",
             lambda c: at(c, "latency", "p50_ns"), 1e-3, lambda c: at(c, "latency", "p99_ns")),
            ("at 80 % of the path's own peak rate, from when an event was due, us: p50 (dot: p99)",
             lambda c: at(c, "load_80", "p50_ns"), 1e-3, lambda c: at(c, "load_80", "p99_ns")),
            ("peak rate, thousand events a second", lambda c: at(c, "per_second"), 1e-3, None),
            ("gpud's CPU time an event, us, one in flight (dot: pipelined)",
             lambda c: at(c, "gpud_cpu_ns_per_event", "one_in_flight"), 1e-3, lambda c: at(c, "gpud_cpu_ns_per_event", "pipelined")),
        ):
            panels.append(lambda axes, t=title, v=value_of, s=scale, d=dots_of: draw_bars(axes, cells, v, t, s, labels, d))
    if "breakdown" in document:
        rate = document["breakdown_packets_per_second"] * 1e-6
        title = f"share of the latency by packets of an event, {rate:.3g} M packets/s (above: mean, us; *: fell behind)"
        panels.append(lambda axes: draw_breakdown(axes, document["breakdown"], title))
    if "co_runner" in document:
        panels.append(lambda axes: draw_co_runner(axes, document["co_runner"]))
    if "background" in document:
        panels.append(lambda axes: draw_bars(
            axes, document["background"], lambda c: at(c, "slowdown", "idle"),
            "background kernel's slowdown, x, beside the idle path (dot: under load)", 1, labels,
            lambda c: at(c, "slowdown", "under_load")))
    if document.get("power", {}).get("measured"):
        panels.append(lambda axes: draw_bars(
            axes, document["power"]["cells"], lambda c: at(c, "load_watts"),
            "power of the whole GPU, W, stream of events (dot: idle)", 1, labels, lambda c: at(c, "idle_watts")))
    return panels


def draw(document, path):
    panels = panels_of(document)
    if not panels:
        raise SystemExit("nothing to draw")
    backend, machine = document["backend"], document["machine"]
    gpu = f", {backend['gpu']}, driver {backend['driver']}" if backend["name"] != "cpu" and backend["gpu"] else ""
    title = plotting.title_of(
        document,
        f"{backend['name']} back-end ({backend['description']}){gpu}; {machine['cpu']}, {machine['cpus']} CPUs"
        + (" (quick: no figures)" if document["quick"] else ""),
    )
    plotting.draw_panels(path, title, panels, [1] * len(panels), width=11, inches_each=3.1, inches_more=0.5)


if __name__ == "__main__":
    plotting.main(__doc__, draw)
