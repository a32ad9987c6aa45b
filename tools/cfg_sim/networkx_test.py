"""Where lanes meet is where networkx has the immediate post-dominator, for random graphs."""

import json
import os
import random
import subprocess
import sys
import tempfile

import networkx

CARILLON = "tools/cli/carillon"
END = "end"


def draw(generator):
    """A graph whose nodes all lead to the end, by edges that are taken."""
    count = generator.randint(1, 14)
    edges = set()
    for node in range(count):
        for _ in range(generator.choice([0, 1, 1, 2, 2, 3])):
            edges.add((node, generator.randrange(count)))
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(sorted(edges))
    graph.add_edges_from((node, END) for node in range(count) if graph.out_degree(node) == 0)
    # What cannot leave a cycle gets a way out.
    leaving = networkx.ancestors(graph, END) if END in graph else set()
    last = count
    graph.add_node(last)
    graph.add_edge(last, END)
    for node in range(count):
        if node not in leaving:
            graph.add_edge(node, last)
    return graph, last + 1


def dot(graph, count):
    lines = [f"n{node} [insns=1];" for node in range(count)]
    lines += [f"n{a} -> n{b};" for a, b in graph.edges if b != END]
    return "digraph {\n" + "\n".join(lines) + "\n}\n"


def main():
    generator = random.Random(11)
    divided = 0
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "graph.dot")
        for number in range(100):
            graph, count = draw(generator)
            with open(file, "w", encoding="ascii") as to:
                to.write(dot(graph, count))
            run = subprocess.run(
                [CARILLON, "cfgsim", file, "--warps", "1", "-o", "json"], capture_output=True, check=False)
            if run.returncode != 0:
                sys.exit(f"graph {number}: {run.stderr.decode()}\n{dot(graph, count)}")
            meets = json.loads(run.stdout)["meets"]
            expected = networkx.immediate_dominators(graph.reverse(), END)
            for node in range(count):
                to = expected[node]
                name = None if to == END else f"n{to}"
                if meets[f"n{node}"] != name:
                    sys.exit(f"graph {number}: n{node} meets at {meets[f'n{node}']}, networkx has {name}\n{dot(graph, count)}")
                divided += graph.out_degree(node) > 1 and name is not None
    if divided < 100:
        sys.exit(f"only {divided} branches met before the end")


main()
