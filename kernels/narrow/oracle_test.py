"""Compares the narrow tasks' kernels with NumPy and SciPy (LAPACK's LU, FFTs)."""

import collections
import itertools
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.signal

# The fewest tasks of each kernel that must have been compared.
KERNELS = {
    "mandelbrot": 5,
    "filter_bank": 5,
    "beam_fir": 4,
    "beam_form": 2,
    "dct8x8_shared": 5,
    "matmul_shared": 5,
    "conv_rows": 3,
    "conv_columns": 2,
    "slud": 1,
}


def escape_counts(c, most):
    z = np.zeros_like(c)
    counts = np.full(c.shape, most, np.uint32)
    for n in range(most):
        counts[(counts == most) & (np.abs(z) > 2)] = n
        z = np.where(counts == most, z * z + c, z)
    return counts


class Oracle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(os.environ["TEST_TMPDIR"])
        subprocess.run([RUNNER, directory], check=True)
        cls.tasks = collections.defaultdict(dict)
        for path in sorted(directory.glob("*.npy")):
            kernel, number, parameter = path.stem.split("-")
            cls.tasks[kernel, number][parameter] = np.load(path)

    def of(self, kernel):
        found = [task for (name, _), task in self.tasks.items() if name == kernel]
        self.assertGreaterEqual(len(found), KERNELS[kernel])
        return found

    def near(self, found, expected, tolerance):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)

    def test_every_kernel_is_compared(self):
        self.assertEqual({kernel for kernel, _ in self.tasks}, set(KERNELS))

    def test_mandelbrot(self):
        for task in self.of("mandelbrot"):
            counts = task["counts"]
            real, imaginary, step = (float(x) for x in task["view"])
            y, x = np.indices(counts.shape)
            c = (real + step * x) + 1j * (imaginary + step * y)
            around = [
                escape_counts(c + 1e-6 * (dx + 1j * dy), 400)
                for dx, dy in itertools.product((-1, 0, 1), repeat=2)
            ]
            sure = np.min(around, axis=0) == np.max(around, axis=0)
            self.assertGreater(sure.mean(), 0.99)
            np.testing.assert_array_equal(counts[sure], around[0][sure])

    def test_filter_bank(self):
        for task in self.of("filter_bank"):
            length = len(task["signal"])
            filtered = scipy.signal.lfilter(task["analysis"], [1], task["signal"])
            out = scipy.signal.upfirdn(task["synthesis"], filtered[::8], up=8)
            out = np.concatenate([out, np.zeros(length)])
            self.near(task["out"], out[:length], 1e-3)

    def test_beam_fir(self):
        for task in self.of("beam_fir"):
            factor = round(len(task["signal"]) / len(task["out"]))
            out = scipy.signal.fftconvolve(
                task["signal"].astype(complex), task["filter"].astype(complex)
            )
            self.near(task["out"], out[: len(task["signal"]) : factor], 1e-3)

    def test_beam_form(self):
        for task in self.of("beam_form"):
            self.near(task["beam"], task["weights"] @ task["channels"], 1e-4)

    def test_dct(self):
        for task in self.of("dct8x8_shared"):
            rows, columns = task["coefficients"].shape[:2]
            image = task["image"].astype(float) - 128
            image = np.pad(
                image,
                ((0, 8 * rows - image.shape[0]), (0, 8 * columns - image.shape[1])),
                mode="edge",
            )
            blocks = image.reshape(rows, 8, columns, 8).swapaxes(1, 2)
            expected = scipy.fft.dctn(blocks, axes=(2, 3), norm="ortho")
            self.near(task["coefficients"], expected, 1e-3)

    def test_matmul(self):
        for task in self.of("matmul_shared"):
            expected = task["a"].astype(float) @ task["b"].astype(float)
            self.near(task["c"], expected, 1e-4)

    def test_convolution(self):
        for kernel, axis in (("conv_rows", 1), ("conv_columns", 0)):
            for task in self.of(kernel):
                expected = scipy.ndimage.convolve1d(
                    task["image"].astype(float), task["taps"], axis, mode="nearest"
                )
                self.near(task["out"], expected, 1e-4)

    def test_slud(self):
        for task in self.of("slud"):
            before, after = (
                task[name].astype(float).swapaxes(1, 2) for name in ("before", "after")
            )
            side = before.shape[0] * before.shape[1]
            lu, pivots = scipy.linalg.lu_factor(before.reshape(side, side))
            np.testing.assert_array_equal(pivots, np.arange(side))
            self.near(after.reshape(side, side), lu, 1e-3)


if __name__ == "__main__":
    RUNNER = sys.argv.pop(1)
    unittest.main()
