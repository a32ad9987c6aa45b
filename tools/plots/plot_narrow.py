"""Draws what `carillon bench narrow` measured: plot_narrow.py RESULT.json PLOT.png"""
import plotting
from plot_launch import at, draw_bars


def draw_threads(axes, cells, title):
    """Tasks a second by the number of a task's threads; a line for each workload and path."""
    rows = dict.fromkeys((cell["workload"], cell["path"]) for cell in cells)
    for number, (workload, path) in enumerate(rows):
        points = [
            (cell["threads"], at(cell, "tasks_per_second", "median"))
            for cell in cells
            if (cell["workload"], cell["path"]) == (workload, path)
        ]
        points = [(x, y) for x, y in points if y is not None]
        axes.plot(
            [x for x, _ in points],
            [y * 1e-3 for _, y in points],
            "o-" if path == "pagoda" else "s--",
            color=plotting.COLOURS[number % len(plotting.COLOURS)],
            label=f"{workload}, {path}",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plotting.head(axes, title, "both")
    axes.legend(fontsize=7)


def panels_of(document):
    panels = []
    for part, of in (("tasks", ""), ("copies", ", with copies"), ("irregular", ", irregular tasks")):
        cells = [cell for cell in document["cells"] if cell["part"] == part]
        if not cells:
            continue
        base = document.get("base", "baseline")
        if any(cell["path"] == base and cell["status"] == "measured" for cell in cells):
            panels.append(lambda axes, c=cells, w=of, b=base: draw_bars(
                axes, [cell for cell in c if cell["path"] != b], lambda cell: at(cell, "over_baseline"),
                f"tasks a second over {b}'s, x{w}", 1, {}))
        panels.append(lambda axes, c=cells, w=of: draw_bars(
            axes, c, lambda cell: at(cell, "response_mean_us"), f"mean response, us{w} (dot: p99)", 1, {},
            lambda cell: at(cell, "response_p99_us")))
    cells = [cell for cell in document["cells"] if cell["part"] == "threads"]
    if cells:
        panels.append(lambda axes: draw_threads(axes, cells, "thousand tasks a second, by threads a task (Pagoda Fig. 11)"))
    return panels


def draw(document, path):
    panels = panels_of(document)
    if not panels:
        raise SystemExit("nothing to draw")
    where = f"{document['machine']['cpu']}, {document['machine']['cpus']} CPUs"
    if document["backend"] == "sim":
        where = f"simulated {document['conditions']['timing']}, in its own time"
    elif document["backend"] == "cuda":
        where = document.get("driver") or document["conditions"]["description"]
    title = plotting.title_of(document, where + (" (quick: no figures)" if document["quick"] else ""))
    plotting.draw_panels(path, title, panels, [1] * len(panels), width=13, inches_each=3.1, inches_more=0.5)


if __name__ == "__main__":
    plotting.main(__doc__, draw)
