#!/bin/sh
# The kernels' CPU form against NumPy and SciPy: kernel_oracles_test.sh DUMP SCRIPT.
set -eu
# The system's Python has the modules.
compare() { /usr/bin/python3 -P "$@" "$TEST_TMPDIR/cases.json"; }
for seed in 1 2 3 4; do
  "$1" $seed "$TEST_TMPDIR/cases.json"
  compare "$2"
done
compare -W ignore "$2" --spoil
