"""What the plots of all benches have in common: panels below each other, bars, a title, the program around them."""
import contextlib
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, RED, GREEN, GREY = "#4878a8", "#b04030", "#3a8a4a", "#888888"
COLOURS = [BLUE, RED, GREEN, "#b08820", "#7a5a9a", "#508890", GREY]  # one after another
RANGE = "#203040"  # the line from the least run to the most


def short(value):
    """Three digits that matter."""
    if value >= 1e5:
        return f"{value * 1e-3:.0f}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def bar_and_range(summary, scale):
    """A bar's length and its error bars, of a summary over runs: the median, and the range around it."""
    median = summary["median"] * scale
    return median, [[median - summary["low"] * scale], [summary["high"] * scale - median]]


def head(axes, title, grid):
    axes.set_title(title, fontsize=9, loc="left")
    axes.grid(axis=grid, alpha=0.3)


def draw_panels(path, title, panels, heights, width, inches_each, inches_more):
    """Has each of `panels` draw on axes of its own, of these relative heights, and writes the picture to `path`."""
    figure, all_axes = plt.subplots(
        len(panels),
        1,
        figsize=(width, inches_each * sum(heights) + inches_more),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, panel in zip(all_axes[:, 0], panels):
        panel(axes)
    figure.suptitle(title, fontsize=8)
    part = path + ".part"
    try:
        figure.savefig(part, format="png", dpi=120)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(part)
        print(f"cannot write {path}: {error.strerror}", flush=True)
        raise SystemExit(1) from None


def title_of(document, about):
    """The line above a bench's picture; `about`: what ran, and where."""
    return f"carillon bench {document['bench']}, {document['when'][:10]}: {about}"


def main(usage, draw):
    if len(sys.argv) != 3:
        raise SystemExit(usage)
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    draw(document, sys.argv[2])
    print("ok", flush=True)
