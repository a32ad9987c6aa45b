#!/bin/sh
# cluster_test.sh NAME: the test NAME.py with Debian's etcd and Slurm. Without network it
# skips: installed, their packages would start servers for the whole machine, so they are
# unpacked here.
set -eu
mkdir "$TEST_TMPDIR/deb"
packages="etcd-server slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15"
# shellcheck disable=SC2086
if ! (cd "$TEST_TMPDIR/deb" && timeout 120 apt-get download $packages) > "$TEST_TMPDIR/apt.log" 2>&1; then
  bazel/skip.sh "the packages of etcd and Slurm could not be had"
  exit 0
fi
for package in "$TEST_TMPDIR"/deb/*.deb; do dpkg-deb -x "$package" "$TEST_TMPDIR/root"; done
exec /usr/bin/python3 "integration_tests/conformance/$1.py" "$TEST_TMPDIR/root"
