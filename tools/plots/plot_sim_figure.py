"""Draws what `carillon sim figure` or `carillon hashsim` made: plot_sim_figure.py FIGURE.json PLOT.png"""
import plotting


def draw_panel(axes, panel):
    """A group of bars for each of `groups`; lines from `low` to `high` where there are these."""
    bars, groups = panel["bars"], panel["groups"]
    stacked = panel.get("stacked", False)
    width = 0.8 if stacked else 0.8 / len(bars)
    below = [0] * len(groups)
    for number, bar in enumerate(bars):
        label = bar["label"]
        for place, value in enumerate(bar["values"]):
            if value is None:
                continue
            x = place if stacked else place + (number - (len(bars) - 1) / 2) * width
            spread = None
            if bar.get("low"):
                spread = [[value - bar["low"][place]], [bar["high"][place] - value]]
            axes.bar(x, value, width * 0.9, bottom=below[place] if stacked else 0, yerr=spread, color=plotting.COLOURS[number % len(plotting.COLOURS)],
                     ecolor=plotting.RANGE, capsize=1.5, label=label)
            label = None
            axes.annotate(plotting.short(value), (x, below[place] + value if stacked else value), xytext=(0, 2), textcoords="offset points", fontsize=5, ha="center")
            if stacked:
                below[place] += value
    if panel.get("log"):
        # From 0 on: a latency may be none at all.
        axes.set_yscale("symlog", linthresh=1)
    axes.set_xticks(range(len(groups)), groups, fontsize=6 if len(groups) > 12 else 8)
    plotting.head(axes, panel["title"], "y")
    axes.margins(y=0.2)
    if any(value is not None for bar in bars for value in bar["values"]):
        axes.legend(fontsize=7, ncols=len(bars), loc="upper left")


def draw(document, path):
    panels = document["panels"]
    gpu = f"simulated GPU {document['gpu']}, " if "gpu" in document else ""
    title = f"{document['figure']}: {document['title']} ({gpu}seed {document['seed']})"
    if document["quick"]:
        title += " (quick: no figures)"
    plotting.draw_panels(path, title, [lambda axes, p=panel: draw_panel(axes, p) for panel in panels], [1] * len(panels),
                         width=11, inches_each=2.8, inches_more=0.5)


if __name__ == "__main__":
    plotting.main(__doc__, draw)
