#!/bin/sh
# The system's Python: Bazel 4's own Python rules want a toolchain.
exec /usr/bin/python3 tools/cli/completion_test.py
