#!/bin/sh
# memcached's own suite, adapted, against a NIC. Without network it skips: the suite
# comes as Debian's source package.
set -u

CARILLON_BIN_DIR=$PWD
CARILLON_RUNTIME_DIR=$(mktemp -d)
export CARILLON_BIN_DIR CARILLON_RUNTIME_DIR
carillon=tools/cli/carillon
trap '"$carillon" down --all; rm -rf "$CARILLON_RUNTIME_DIR"' EXIT

"$carillon" up -d -f tools/cli/topologies/memcached.yaml || exit 1
integration_tests/conformance/adapted_memcached_suite.sh 127.0.0.1:22122
result=$?
if [ "$result" -eq 3 ]; then
  bazel/skip.sh "the source package of memcached could not be had"
  exit
fi
exit "$result"
