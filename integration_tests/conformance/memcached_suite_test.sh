#!/bin/sh
# memcached's own suite against a NIC. Without network it says so and passes:
# the suite comes as Debian's source package.
set -u

CARILLON_BIN_DIR=$PWD
CARILLON_RUNTIME_DIR=$(mktemp -d)
export CARILLON_BIN_DIR CARILLON_RUNTIME_DIR
carillon=tools/cli/carillon
trap '"$carillon" down --all; rm -rf "$CARILLON_RUNTIME_DIR"' EXIT

"$carillon" up -d -f tools/cli/topologies/memcached.yaml || exit 1
integration_tests/conformance/memcached_suite.sh 127.0.0.1:22122
result=$?
if [ "$result" -eq 3 ]; then
  echo "NOT RUN: memcached's suite could not be had" >&2
  exit 0
fi
exit "$result"
