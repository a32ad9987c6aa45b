"""Draws what a bench measured: plot_bench.py RESULT.json PLOT.png"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PANELS = (
    # key of a contender's summary, title, scale, mark of the tail
    ("round_trip_p50_ns", "round trip, us (bar: p50, line: range of runs, dot: p99)", 1e-3, "round_trip_p99_ns"),
    ("per_second", "pipelined, million a second", 1e-6, None),
)


def rows_of(part, key):
    """(label, summary) of the contenders that measured `key`, first one on top."""
    labels = {c["name"]: c["label"] for c in part["contenders"]}
    rows = [(labels[name], summary) for name, summary in part["summary"].items() if summary and key in summary]
    return list(reversed(rows))


def scale_axis(axes, medians):
    if medians and max(medians) > 20 * min(medians):
        axes.set_xscale("log")


def draw_panel(axes, part, key, title, scale, tail):
    rows = rows_of(part, key)
    medians = [summary[key]["median"] * scale for _, summary in rows]
    spread = [
        [(summary[key]["median"] - summary[key]["low"]) * scale for _, summary in rows],
        [(summary[key]["high"] - summary[key]["median"]) * scale for _, summary in rows],
    ]
    places = range(len(rows))
    axes.barh(places, medians, xerr=spread, color="#4878a8", ecolor="#203040", capsize=2)
    if tail:
        axes.plot([summary[tail]["median"] * scale for _, summary in rows], places, "o", color="#b04030", markersize=4)
    scale_axis(axes, medians)
    for place, median in zip(places, medians):
        axes.annotate(f" {median:.3g}", (median, place), xytext=(2, 7), textcoords="offset points", fontsize=7)
    axes.set_yticks(list(places), [label for label, _ in rows], fontsize=8)
    axes.set_title(f"{part['name']}: {title}", fontsize=9, loc="left")
    axes.margins(x=0.15)
    axes.grid(axis="x", alpha=0.3)


def draw_figures(axes, figures):
    """Ratios with their ranges and, as a tick, the target."""
    figures = list(reversed(figures))
    for place, figure in enumerate(figures):
        value = figure["value"]
        good = figure.get("met")
        colour = "#888888" if good is None else "#3a8a4a" if good else "#b04030"
        axes.plot([value["low"], value["high"]], [place, place], color=colour, linewidth=2)
        axes.plot([value["median"]], [place], "o", color=colour)
        axes.annotate(f"{value['median']:.2f}", (value["median"], place), xytext=(0, 5), textcoords="offset points", fontsize=7)
        for target in figure.get("target", {}).values():
            axes.plot([target], [place], "|", color="black", markersize=14)
    axes.axvline(1, color="#cccccc", zorder=0)
    scale_axis(axes, [figure["value"]["median"] for figure in figures])
    axes.set_yticks(range(len(figures)), [figure["what"] for figure in figures], fontsize=8)
    axes.set_title("ratios of interleaved pairs (dot: median, line: range, tick: target)", fontsize=9, loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.1)


def draw(document, path):
    panels = [
        (part, panel) for part in document["parts"] for panel in PANELS if rows_of(part, panel[0])
    ]
    ratios = [f for f in document["figures"] if f["unit"] == "x" and f["value"]["runs"] > 0]
    if not panels and not ratios:
        raise SystemExit("nothing to draw: no part has a round trip or a rate, and there are no ratios")
    heights = [len(rows_of(part, panel[0])) + 1.2 for part, panel in panels]
    if ratios:
        heights.append(len(ratios) + 1.2)
    figure, all_axes = plt.subplots(
        len(heights),
        1,
        figsize=(9, 0.42 * sum(heights) + 0.8),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (part, panel) in zip(all_axes[:, 0], panels):
        draw_panel(axes, part, *panel)
    if ratios:
        draw_figures(all_axes[-1, 0], ratios)
    machine = document["machine"]
    figure.suptitle(
        f"carillon bench {document['bench']}, {document['when'][:10]}: "
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}",
        fontsize=8,
    )
    figure.savefig(path, dpi=120)


def main(arguments):
    if len(arguments) != 3:
        raise SystemExit(__doc__)
    with open(arguments[1], encoding="utf-8") as file:
        document = json.load(file)
    draw(document, arguments[2])
    print("ok", flush=True)


if __name__ == "__main__":
    main(sys.argv)
