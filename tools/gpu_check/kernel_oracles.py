"""Compares what kernels computed with NumPy and SciPy.

Reads the cases of a file that dump_cases wrote: the buffers before, the launches, and the
buffers after. Computes each launch anew from what the kernel's documentation and the published
equations say, and compares. Shares no code with the kernels or their references in C++.

usage: kernel_oracles.py [--spoil] FILE
  --spoil  first changes a bit of every result, and expects that each is found
"""
import base64
import json
import sys
import zlib

import numpy as np
from scipy import fft, linalg, ndimage, signal, sparse, spatial, stats

TOLERANCE = 1e-4  # relative to the larger of 1 and the largest magnitude in a buffer

f32, i32, u32, u8 = "<f4", "<i4", "<u4", "u1"


def vector_add(a):
    a.write("c", f32, a("a", f32) + a("b", f32))


def echo(a):
    a.write("out", u8, a("in", u8))


def crc32(a):
    n = a.number("message_bytes")
    data = a("messages", u8).tobytes()
    count = len(a("crcs", u32))
    a.write("crcs", u32, [zlib.crc32(data[i * n:i * n + n]) for i in range(count)])


def matmul(a):
    n = a.number("n")
    product = a("a", f32).reshape(n, n).astype(float) @ a("b", f32).reshape(n, n)
    a.write("c", f32, product)


def conv5x5(a):
    width, height, shift = a.number("width"), a.number("height"), a.number("shift")
    image = a("image", u8)[:width * height].reshape(height, width).astype(np.int64)
    weights = a("weights", i32)[:25].reshape(5, 5).astype(np.int64)
    sums = ndimage.correlate(image, weights, mode="nearest")
    rounded = (sums + (1 << shift >> 1)) >> shift
    a.write("out", u8, np.clip(rounded, 0, 255))


def dct8x8(a):
    width, height = a.number("width"), a.number("height")
    image = a("image", u8).reshape(height, width).astype(float) - 128
    image = np.pad(image, ((0, -height % 8), (0, -width % 8)), mode="edge")
    blocks = image.reshape(image.shape[0] // 8, 8, -1, 8).swapaxes(1, 2)
    a.write("coefficients", f32, fft.dctn(blocks, axes=(2, 3), norm="ortho"))


def frame_dct8x8(a):
    dct8x8(a)
    a.write("tag", u8, a("frame", u8)[a.number("width") * a.number("height"):])


def reduce(a):
    a.write("sum", "<u8", a("sum", "<u8") + a("in", u32).astype(np.uint64).sum())


def next_level(rows, columns, levels, level):
    """The vertices that have an edge from one of this level."""
    n = len(levels)
    graph = sparse.csr_matrix((np.ones(rows[-1], int), columns[:rows[-1]], rows), (n, n))
    return (graph.T @ (levels == level)) > 0


def bfs_level(a):
    levels, level = a("levels", u32).copy(), a.number("level")
    reached = next_level(a("rows", u32), a("columns", u32), levels, level)
    reached &= levels == 0xffffffff
    levels[reached] = level + 1
    a.write("levels", u32, levels)
    if reached.any():
        a.write("changed", u32, [1])


def bfs_expand(a):
    frontier, cost = a("frontier", u8).astype(bool), a("cost", u32).copy()
    nodes = a("nodes", u32).reshape(-1, 2)
    reached = a("reached", u8).copy()
    for node in np.flatnonzero(frontier):
        first, count = nodes[node]
        targets = a("edges", u32)[first:first + count]
        targets = targets[a("visited", u8)[targets] == 0]
        cost[targets] = cost[node] + 1
        reached[targets] = 1
    a.write("frontier", u8, np.zeros_like(reached))
    a.write("cost", u32, cost)
    a.write("reached", u8, reached)


def bfs_commit(a):
    reached = a("reached", u8)
    a.write("frontier", u8, a("frontier", u8) | reached)
    a.write("visited", u8, a("visited", u8) | reached)
    if reached.any():
        a.write("over", u8, [1])
    a.write("reached", u8, np.zeros_like(reached))


def black_scholes(a):
    spot, strike, years = (a(name, f32).astype(float) for name in ("spot", "strike", "years"))
    rate, volatility = a.real("rate"), a.real("volatility")
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    d2 = d1 - spread
    now = strike * np.exp(-rate * years)
    a.write("call", f32, spot * stats.norm.cdf(d1) - now * stats.norm.cdf(d2))
    a.write("put", f32, now * stats.norm.cdf(-d2) - spot * stats.norm.cdf(-d1))


def bp_forward(a):
    count = len(a("partial_sums", f32))
    weights = a("weights", f32).reshape(-1, 17)[1:count + 1, 1:].astype(float)
    products = weights * a("input", f32)[1:count + 1, None]
    a.write("partial_sums", f32, products.reshape(-1, 16, 16).sum(axis=1))


def bp_adjust(a):
    inputs = a("input", f32).astype(float).copy()
    inputs[0] = 1  # the threshold's
    weights = a("weights", f32).reshape(-1, 17).astype(float)
    changes = a("changes", f32).reshape(-1, 17).astype(float)
    moved = 0.3 * np.outer(inputs, a("delta", f32)[:17]) + 0.3 * changes
    changes[:, 1:] = moved[:, 1:]
    weights[:, 1:] += moved[:, 1:]
    a.write("weights", f32, weights)
    a.write("changes", f32, changes)


def conv_layer(a):
    size, width, stride = a.number("image_size"), a.number("filter_size"), a.number("stride")
    colours = a.number("colours")
    images = a("images", f32).reshape(colours, size, size, -1).astype(float)
    filters = a("filters", f32).reshape(colours, width, width, -1).astype(float)
    targets = []
    for i in range(filters.shape[3]):
        whole = signal.correlate(images, filters[:, :, :, i:i + 1], mode="valid")[0]
        targets.append(whole[::stride, ::stride])
    a.write("targets", f32, targets)


def cutcp(a):
    shape = [8 * a.number("bins_" + axis) for axis in "zyx"]
    atoms = a("atoms", f32).reshape(-1, 4).astype(float)
    atoms = atoms[atoms[:, 3] != 0]
    # A point sees the atoms that are stored for the bins in its bin's reach.
    capacity, reach = a.number("capacity"), a.number("reach")
    bins = np.indices([n // 8 for n in shape]).reshape(3, -1).T.repeat(capacity, axis=0)
    bins = bins[a("atoms", f32).reshape(-1, 4)[:, 3] != 0]
    points = np.indices(shape).reshape(3, -1).T
    potential = np.zeros(len(points))
    for (x, y, z, charge), home in zip(atoms, bins):
        r = np.linalg.norm(points * a.real("spacing") - [z, y, x], axis=1)
        counts = (r < a.real("cutoff")) & (np.abs(points // 8 - home).max(axis=1) <= reach)
        near = r[counts]
        potential[counts] += charge / near * (1 - (near / a.real("cutoff"))**2)**2
    a.write("potential", f32, potential)


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    scale = (a * a).sum() * (b * b).sum()
    return (a * b).sum() / np.sqrt(scale) if scale > 1e-6 else -1.0


def heartwall(a):
    width, height = a.number("width"), a.number("height")
    size, search = a.number("template_size"), a.number("search_size")
    places = a("places", u32).reshape(-1, 2).astype(int)
    margin = size // 2 + search // 2
    frame = np.pad(a("frame", f32).reshape(height, width).astype(float), margin, mode="edge")
    scores = []
    for i, pattern in enumerate(a("templates", f32).reshape(-1, size, size)):
        x, y = places[i]
        area = frame[y:y + 2 * margin + 1, x:x + 2 * margin + 1]
        windows = np.lib.stride_tricks.sliding_window_view(area, (size, size))
        found = [correlation(w, pattern.astype(float)) for w in windows.reshape(-1, size, size)]
        best = int(np.argmax(found))
        scores.append(found[best])
        moved = places[i] + [best % search - search // 2, best // search - search // 2]
        places[i] = np.clip(moved, 0, [width - 1, height - 1])
    a.write("scores", f32, scores)
    a.write("places", u32, places)
    a.skip("scratch")  # the kernel's own


def hotspot(a):
    rows, columns = a.number("rows"), a.number("columns")
    power = a("power", f32).reshape(rows, columns).astype(float)
    t = a("from", f32).reshape(rows, columns).astype(float)
    for _ in range(a.number("steps")):
        along = [ndimage.correlate1d(t, [1, -2, 1], axis=axis, mode="nearest") for axis in (0, 1)]
        t = t + a.real("step_by_capacity") * (power + along[0] * a.real("by_ry") +
                                              along[1] * a.real("by_rx") +
                                              (80 - t) * a.real("by_rz"))
    a.write("to", f32, t)


def kmn_invert(a):
    points = a("by_point", f32).reshape(a.number("points"), a.number("features"))
    a.write("by_feature", f32, points.T)


def kmn_point(a):
    points = a("by_feature", f32).reshape(a.number("features"), a.number("points")).T
    centres = a("centres", f32).reshape(a.number("clusters"), a.number("features"))
    distances = spatial.distance.cdist(points, centres, "sqeuclidean")
    a.write("membership", u32, distances.argmin(axis=1))


def lbm(a):
    shape = [a.number(name) for name in ("depth", "height", "width")]
    omega = a.real("omega")
    solid = a("solid", u8).reshape(shape) != 0
    f = a("from", f32).reshape(19, *shape).astype(float)
    half = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1),
            (0, 1, 1), (0, 1, -1)]
    c = np.array([(0, 0, 0)] + [s for x, y, z in half for s in ((x, y, z), (-x, -y, -z))])
    weights = np.array([1 / 3, 1 / 18, 1 / 36, 1 / 36])[np.abs(c).sum(axis=1)]
    opposite = [next(j for j in range(19) if (c[j] == -c[i]).all()) for i in range(19)]
    moved = np.empty_like(f)
    for i, (x, y, z) in enumerate(c):
        def shifted(array, x=x, y=y, z=z):
            return np.roll(array, (z, y, x), axis=(0, 1, 2))
        moved[i] = np.where(shifted(solid), f[opposite[i]], shifted(f[i]))
    density = moved.sum(axis=0)
    u = np.einsum("i...,ik->k...", moved, c) / density
    along = np.einsum("ik,k...->i...", c, u)
    equilibrium = weights[:, None, None, None] * density * (
        1 + 3 * along + 4.5 * along**2 - 1.5 * (u * u).sum(axis=0))
    result = (1 - omega) * moved + omega * equilibrium
    a.write("to", f32, np.where(solid, f, result))


def lud_step(a):
    """The matrix and the part of it that is still to be factored."""
    n, offset = a.number("n"), a.number("offset")
    matrix = a("matrix", f32).reshape(n, n).astype(float)
    return matrix, slice(offset, offset + 16), slice(offset + 16, n)


def lud_diagonal(a):
    matrix, here, _ = lud_step(a)
    block = matrix[here, here]
    for k in range(16):
        block[k + 1:, k] /= block[k, k]
        block[k + 1:, k + 1:] -= np.outer(block[k + 1:, k], block[k, k + 1:])
    a.write("matrix", f32, matrix)


def lud_perimeter(a):
    matrix, here, rest = lud_step(a)
    lower = np.tril(matrix[here, here], -1) + np.eye(16)
    upper = np.triu(matrix[here, here])
    matrix[here, rest] = np.linalg.solve(lower, matrix[here, rest])
    matrix[rest, here] = np.linalg.solve(upper.T, matrix[rest, here].T).T
    a.write("matrix", f32, matrix)


def lud_internal(a):
    matrix, here, rest = lud_step(a)
    matrix[rest, rest] -= matrix[rest, here] @ matrix[here, rest]
    a.write("matrix", f32, matrix)


def mri_q(a):
    samples = a("samples", f32).reshape(-1, 4).astype(float)
    voxels = np.stack([a(axis, f32).astype(float) for axis in "xyz"])
    q = np.exp(2j * np.pi * (voxels.T @ samples[:, :3].T)) @ samples[:, 3]
    a.write("real", f32, q.real)
    a.write("imaginary", f32, q.imag)


def pathfinder(a):
    columns, steps = a.number("columns"), a.number("steps")
    way = a("from", i32).astype(int)
    for row in a("costs", i32)[:columns * steps].reshape(steps, columns):
        way = row + ndimage.minimum_filter1d(way, 3, mode="nearest")
    a.write("to", i32, way)


def sc(a):
    points = np.frombuffer(a.bytes("points"), [("weight", f32), ("cost", f32), ("centre", u32)])
    coordinates = a("coordinates", f32).reshape(a.number("dimensions"), len(points)).T
    candidate = coordinates[a.number("candidate")][None]
    cost = spatial.distance.cdist(coordinates, candidate, "sqeuclidean")[:, 0] * points["weight"]
    gains = a("gains", f32).reshape(len(points), -1).astype(float)
    saved = points["cost"] - cost
    switches = saved > 0
    gains[switches, -1] -= saved[switches]
    stays = np.flatnonzero(~switches)
    gains[stays, a("centre_table", u32)[points["centre"][stays]]] += saved[stays]
    a.write("gains", f32, gains)
    a.write("switches", u8, a("switches", u8) | switches)


def sgemm(a):
    m, n, k = a.number("rows"), a.number("columns"), a.number("depth")
    product = a("a", f32).reshape(m, k).astype(float) @ a("b", f32).reshape(k, n)
    before = a("c", f32).reshape(m, n).astype(float)
    a.write("c", f32, a.real("alpha") * product + a.real("beta") * before)


def neighbours(image):
    """The differences to the pixel above, below, left and right; 0 at a border."""
    padded = np.pad(image, 1, mode="edge")
    return (padded[:-2, 1:-1] - image, padded[2:, 1:-1] - image, padded[1:-1, :-2] - image,
            padded[1:-1, 2:] - image)


def diffusion(image, q0_squared):
    """Yu and Acton, Speckle reducing anisotropic diffusion (2002), equations 31 to 35."""
    differences = neighbours(image)
    gradient = sum(d * d for d in differences) / image**2
    laplacian = sum(differences) / image
    q_squared = (gradient / 2 - laplacian**2 / 16) / (1 + laplacian / 4)**2
    c = 1 / (1 + (q_squared - q0_squared) / (q0_squared * (1 + q0_squared)))
    return np.clip(c, 0, 1), differences


def srad_v1_extract(a):
    a.write("image", f32, np.exp(a("image", f32).astype(float) / 255))


def srad_v1(a):
    rows, columns = len(a("row_above", u32)), len(a("column_left", u32))
    # It lies column by column.
    image = a("image", f32).reshape(columns, rows).T.astype(float)
    c, differences = diffusion(image, a.real("q0_squared"))
    a.write("coefficients", f32, c.T)
    for name, difference in zip(("north", "south", "west", "east"), differences):
        a.write(name, f32, difference.T)


def srad_v2_1(a):
    image = a("image", f32).reshape(a.number("rows"), a.number("columns")).astype(float)
    c, differences = diffusion(image, a.real("q0_squared"))
    a.write("coefficients", f32, c)
    for name, difference in zip(("north", "south", "west", "east"), differences):
        a.write(name, f32, difference)


def srad_v2_2(a):
    shape = a.number("rows"), a.number("columns")
    c, image = (a(name, f32).reshape(shape).astype(float) for name in ("coefficients", "image"))
    north, south, west, east = (a(name, f32).reshape(shape).astype(float)
                                for name in ("north", "south", "west", "east"))
    below, right = np.pad(c, ((0, 1), (0, 1)), mode="edge")[1:, :-1], np.pad(
        c, ((0, 1), (0, 1)), mode="edge")[:-1, 1:]
    divergence = c * north + below * south + c * west + right * east
    a.write("image", f32, image + 0.25 * a.real("lambda") * divergence)


def stencil(a):
    shape = [a.number(name) for name in ("depth", "height", "width")]
    cells = a("in", f32).reshape(shape).astype(float)
    weights = a.real("around") * ndimage.generate_binary_structure(3, 1).astype(float)
    weights[1, 1, 1] = -a.real("centre")
    inner = np.zeros(shape, bool)
    inner[1:-1, 1:-1, 1:-1] = True
    a.write("out", f32, np.where(inner, ndimage.correlate(cells, weights), cells))


def complex_numbers(a, name):
    return a(name, f32).astype(float).view(complex)


def write_complex(a, name, values):
    a.write(name, f32, np.ascontiguousarray(values, complex).view(float))


def beam_fir(a):
    length = a.number("length")
    out = np.convolve(complex_numbers(a, "signal"), complex_numbers(a, "filter"))
    write_complex(a, "out", out[:length:a.number("factor")])


def beam_form(a):
    channels = complex_numbers(a, "channels").reshape(a.number("channel_count"), -1)
    write_complex(a, "beam", complex_numbers(a, "weights") @ channels)


def conv_pass(axis):
    def run(a):
        image = a("image", f32).reshape(a.number("height"), a.number("width")).astype(float)
        a.write("out", f32, ndimage.convolve1d(image, a("taps", f32), axis, mode="nearest"))
    return run


def filter_bank(a):
    length, factor = a.number("length"), a.number("factor")
    filtered = signal.lfilter(a("analysis", f32).astype(float), [1], a("signal", f32))
    kept = np.where(np.arange(length) % factor == 0, filtered, 0)
    a.write("filtered", f32, filtered)
    a.write("kept", f32, kept)
    a.write("out", f32, signal.lfilter(a("synthesis", f32).astype(float), [1], kept))


def escape_counts(c, most):
    z = np.zeros_like(c)
    counts = np.full(c.shape, most, np.uint32)
    for n in range(most):
        counts[(counts == most) & (np.abs(z) > 2)] = n
        z = np.where(counts == most, z * z + c, z)
    return counts


def mandelbrot(a):
    y, x = np.indices((a.number("height"), a.number("width")))
    step = a.real("step")
    c = a.real("first_real") + step * x + 1j * (a.real("first_imaginary") + step * y)
    # A pixel whose neighbourhood of 1e-6 escapes at different times is taken as it was found: the
    # kernel computes in single precision.
    around = [escape_counts(c + 1e-6 * (dx + 1j * dy), a.number("most"))
              for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    sure = np.min(around, axis=0) == np.max(around, axis=0)
    assert sure.mean() > 0.9
    a.write("counts", u32, np.where(sure, around[0], a.found("counts", u32).reshape(sure.shape)))


def blocks_of(a, *names):
    n = a.number("n")
    return [a(name, f32).reshape(n, n).astype(float) for name in names]


def slud_lu0(a):
    block, = blocks_of(a, "block")
    for k in range(len(block)):
        block[k + 1:, k] /= block[k, k]
        block[k + 1:, k + 1:] -= np.outer(block[k + 1:, k], block[k, k + 1:])
    a.write("block", f32, block)


def slud_fwd(a):
    diagonal, block = blocks_of(a, "diagonal", "block")
    a.write("block", f32, linalg.solve_triangular(diagonal, block, lower=True, unit_diagonal=True))


def slud_bdiv(a):
    diagonal, block = blocks_of(a, "diagonal", "block")
    a.write("block", f32, linalg.solve_triangular(diagonal, block.T, trans="T").T)


def slud_bmod(a):
    left, upper, block = blocks_of(a, "left", "upper", "block")
    a.write("block", f32, block - left @ upper)


KERNELS = {function.__name__: function for function in (
    beam_fir, beam_form, bfs_commit, bfs_expand, bfs_level, black_scholes, bp_adjust,
    bp_forward, conv5x5, crc32, cutcp, dct8x8, echo, filter_bank, frame_dct8x8, heartwall, hotspot,
    kmn_invert, kmn_point, lbm, lud_diagonal, lud_internal, lud_perimeter, mandelbrot, matmul,
    mri_q, pathfinder, reduce, sc, sgemm, slud_bdiv, slud_bmod, slud_fwd, slud_lu0, srad_v1,
    srad_v1_extract, srad_v2_1, srad_v2_2, stencil, vector_add)}
KERNELS |= {"conv1": conv_layer, "conv2": conv_layer, "conv_columns": conv_pass(0),
            "conv_rows": conv_pass(1), "dct8x8_plain": dct8x8, "dct8x8_shared": dct8x8,
            "matmul_plain": matmul, "matmul_shared": matmul}
# They compute nothing, or have oracles of their own: memcached, Linux, DPDK, OpenSSL.
ELSEWHERE = {"busy", "echo_reply", "esp_decrypt", "esp_encrypt", "fail_if", "fib_write",
             "ipv4_forward", "ipv6_forward", "memc_get", "memc_gnom_get", "memc_recover",
             "memc_set", "null_event", "sa_write", "triple_des"}


class Arguments:
    """The arguments of one launch, by the names of the kernel's parameters."""

    def __init__(self, launch, buffers, after, skipped):
        self.launch, self.buffers, self.after, self.skipped = launch, buffers, after, skipped

    def bytes(self, name):
        return self.buffers[self.launch["buffers"][name]]

    def __call__(self, name, dtype):
        return np.frombuffer(self.bytes(name), dtype)

    def found(self, name, dtype):
        """What the case's buffer holds at the end."""
        return np.frombuffer(base64.b64decode(self.after[self.launch["buffers"][name]]), dtype)

    def number(self, name):
        return self.launch["numbers"][name]

    def real(self, name):
        return float(np.uint32(self.number(name)).view(np.float32))

    def write(self, name, dtype, values):
        raw = np.asarray(values).astype(dtype).tobytes()
        buffer = self.buffers[self.launch["buffers"][name]]
        assert len(raw) <= len(buffer), f"{name}: {len(raw)} of {len(buffer)} bytes"
        buffer[:len(raw)] = raw

    def skip(self, name):
        self.skipped.add(self.launch["buffers"][name])


def difference(found, expected, compare):
    """The first element that differs, as words; None if none does."""
    if compare == "bytes":
        found, expected = (np.frombuffer(x, u8) for x in (found, expected))
        wrong = found != expected
    else:
        found, expected = (np.frombuffer(x, f32).astype(float) for x in (found, expected))
        largest = max(1.0, np.abs(expected).max(initial=0))
        wrong = ~(np.abs(found - expected) <= TOLERANCE * largest)  # a NaN is wrong
    if not wrong.any():
        return None
    i = int(np.flatnonzero(wrong)[0])
    return f"element {i} of {len(found)} is {found[i]}, expected {expected[i]}"


def check(case):
    """Compares one case. Returns the kernels that it compared, and a complaint or None."""
    names = [launch["kernel"] for launch in case["launches"]]
    if any(case["statuses"]) or any(name in ELSEWHERE for name in names):
        return set(), None
    buffers = [bytearray(base64.b64decode(text)) for text in case["before"]]
    skipped = set()
    for launch in case["launches"]:
        for index, text in launch["inputs"].items():
            raw = base64.b64decode(text)
            buffers[int(index)][:len(raw)] = raw
        if launch["kernel"] not in KERNELS:
            return set(), f"no oracle for {launch['kernel']}"
        KERNELS[launch["kernel"]](Arguments(launch, buffers, case["after"],
                                               skipped))
    for i, (text, compare) in enumerate(zip(case["after"], case["compare"])):
        if compare == "not" or i in skipped:
            continue
        wrong = difference(base64.b64decode(text), bytes(buffers[i]), compare)
        if wrong:
            return set(names), f"{case['name']}: buffer {i}: {wrong}"
    return set(names), None


def spoil(case):
    """Changes a high bit in the middle of each buffer that is compared."""
    for i, compare in enumerate(case["compare"]):
        raw = bytearray(base64.b64decode(case["after"][i]))
        if compare != "not" and raw:
            raw[len(raw) // 8 * 4 + 3 if len(raw) > 3 else 0] ^= 0x40
            case["after"][i] = base64.b64encode(raw).decode()


def main(arguments):
    with open(arguments[-1], encoding="utf-8") as file:
        cases = json.load(file)
    spoiled = "--spoil" in arguments
    kernels, compared, complaints = set(), 0, []
    for case in cases:
        if spoiled:
            spoil(case)
        names, complaint = check(case)
        kernels |= names
        compared += bool(names)
        if complaint:
            complaints.append(complaint)
    missing = set(KERNELS) - kernels
    if missing:
        print("never compared:", ", ".join(sorted(missing)))
    if not spoiled:
        for complaint in complaints:
            print(complaint)
    print(f"{compared} of {len(cases)} cases and {len(kernels)} kernels compared, "
          f"{len(complaints)} cases differ{', all spoiled' if spoiled else ''}")
    return 0 if not missing and len(complaints) == (compared if spoiled else 0) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
