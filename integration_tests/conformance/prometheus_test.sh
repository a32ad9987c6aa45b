#!/bin/sh
# Debian's Prometheus scrapes a living testbed. Without network it skips: installed,
# its package would start a server for the whole machine, so it is unpacked here.
set -eu
mkdir "$TEST_TMPDIR/deb"
if ! (cd "$TEST_TMPDIR/deb" && timeout 60 apt-get download prometheus) > "$TEST_TMPDIR/apt.log" 2>&1; then
  bazel/skip.sh "the package of Prometheus could not be had"
  exit 0
fi
dpkg-deb -x "$TEST_TMPDIR"/deb/*.deb "$TEST_TMPDIR/prometheus"
exec /usr/bin/python3 integration_tests/conformance/prometheus_test.py \
  "$TEST_TMPDIR/prometheus/usr/bin"
