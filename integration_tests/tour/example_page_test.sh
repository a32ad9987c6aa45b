#!/bin/sh
# The system's Python, as in tour_test.sh.
set -eu
if ! unshare -n true 2> /dev/null && ! unshare -rn true 2> /dev/null; then
  exec bazel/skip.sh "no network namespace here"
fi
exec /usr/bin/python3 integration_tests/tour/example_page_test.py "$1"
