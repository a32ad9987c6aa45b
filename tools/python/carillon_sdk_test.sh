#!/bin/sh
# The system's Python, as in python_test.sh.
set -eu
if [ ! -e tools/python/lib/carillon_sdk/_edge.so ]; then
  exec bazel/skip.sh "built without pybind11-dev and Python's headers"
fi
if ! /usr/bin/python3 -P -c "import numpy" 2> /dev/null; then
  exec bazel/skip.sh "python3-numpy is not installed"
fi
PYTHONPATH=tools/python/lib exec /usr/bin/python3 -P tools/python/carillon_sdk_test.py "$@"
