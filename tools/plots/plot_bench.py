"""Draws what a bench measured: plot_bench.py RESULT.json PLOT.png"""
import plotting

PANELS = (
    # key of a contender's summary, title, scale, mark of the tail
    ("round_trip_p50_ns", "round trip, us (bar: p50, line: range of runs, dot: p99)", 1e-3, "round_trip_p99_ns"),
    ("per_second", "pipelined, million a second", 1e-6, None),
)


def rows_of(part, key):
    """(label, summary) of the contenders that measured `key`, first one on top."""
    waits = {c["name"]: c.get("client_waits") for c in part["contenders"]}
    labels = {c["name"]: c["label"] for c in part["contenders"]}
    if len(set(waits.values())) > 1:  # otherwise the part's name says it
        labels = {name: f"{label}: {waits[name]}" for name, label in labels.items()}
    rows = [(labels[name], summary) for name, summary in part["summary"].items() if summary and key in summary]
    return list(reversed(rows))


def scale_axis(axes, medians):
    if medians and max(medians) > 20 * min(medians):
        axes.set_xscale("log")


def draw_panel(axes, part, key, title, scale, tail):
    rows = rows_of(part, key)
    for place, (_, summary) in enumerate(rows):
        median, spread = plotting.bar_and_range(summary[key], scale)
        axes.barh(place, median, xerr=spread, color=plotting.BLUE, ecolor=plotting.RANGE, capsize=2)
        axes.annotate(f" {median:.3g}", (median, place), xytext=(2, 7), textcoords="offset points", fontsize=7)
    if tail:
        tails = [summary[tail]["median"] * scale for _, summary in rows]
        axes.plot(tails, range(len(rows)), "o", color=plotting.RED, markersize=4)
    scale_axis(axes, [summary[key]["median"] for _, summary in rows])
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=8)
    axes.margins(x=0.15)
    plotting.head(axes, f"{part['name']}: {title}", "x")


def draw_curve(axes, part):
    """What an event costs among so many, over what it costs alone: round trip and, pipelined, the time of one."""
    crowds = {c["name"]: c["of"] for c in part["contenders"] if "of" in c}
    numbers = list(crowds.values())
    for key, name, colour in (("round_trip_p50_ns", "round trip, p50", plotting.BLUE), ("per_second", "pipelined", plotting.RED)):
        costs = [part["summary"][contender][key]["median"] for contender in crowds]
        ratios = [cost / costs[0] if key.endswith("_ns") else costs[0] / cost for cost in costs]
        axes.plot(numbers, ratios, "o-", color=colour, markersize=4, label=name)
    axes.axhline(1.2, color="black", linewidth=1, linestyle=":", label="target")
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    plotting.head(axes, f"{part['name']}: cost of an event / among 1 (medians)", "both")


def draw_figures(axes, figures):
    """Ratios with their ranges and, as a tick, the target."""
    figures = list(reversed(figures))
    for place, figure in enumerate(figures):
        value = figure["value"]
        good = figure.get("met")
        colour = plotting.GREY if good is None else plotting.GREEN if good else plotting.RED
        axes.plot([value["low"], value["high"]], [place, place], color=colour, linewidth=2)
        axes.plot([value["median"]], [place], "o", color=colour)
        axes.annotate(f"{value['median']:.2f}", (value["median"], place), xytext=(0, 5), textcoords="offset points", fontsize=7)
        for target in figure.get("target", {}).values():
            axes.plot([target], [place], "|", color="black", markersize=14)
    axes.axvline(1, color="#cccccc", zorder=0)
    scale_axis(axes, [figure["value"]["median"] for figure in figures])
    axes.set_yticks(range(len(figures)), [figure["what"] for figure in figures], fontsize=8)
    axes.margins(x=0.1)
    plotting.head(axes, "ratios of interleaved pairs (dot: median, line: range, tick: target)", "x")


def draw(document, path):
    panels, heights = [], []
    for part in document["parts"]:
        for panel in PANELS:
            if rows := rows_of(part, panel[0]):
                panels.append(lambda axes, part=part, panel=panel: draw_panel(axes, part, *panel))
                heights.append(len(rows) + 1.2)
        if any("of" in contender for contender in part["contenders"]):
            panels.append(lambda axes, part=part: draw_curve(axes, part))
            heights.append(5)
    ratios = [f for f in document["figures"] if f["unit"] == "x" and f["value"]["runs"] > 0]
    if ratios:
        panels.append(lambda axes: draw_figures(axes, ratios))
        heights.append(len(ratios) + 1.2)
    if not panels:
        raise SystemExit("nothing to draw: no part has a round trip or a rate, and there are no ratios")
    machine = document["machine"]
    title = plotting.title_of(document, f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}")
    plotting.draw_panels(path, title, panels, heights, width=9, inches_each=0.42, inches_more=0.8)


if __name__ == "__main__":
    plotting.main(__doc__, draw)
