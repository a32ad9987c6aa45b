#!/bin/sh
# The system's Python: Bazel 4's own Python rules want a toolchain.
# -P: not the folder that the script is linked from.
PYTHONPATH=tools/python exec /usr/bin/python3 -P "$1"
