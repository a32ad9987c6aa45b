#!/bin/sh
# The system's Python: Bazel 4's own Python rules want a toolchain.
exec /usr/bin/python3 tools/cli/top_test.py
