#!/bin/sh
# browser_test.sh NODE CHROMIUM FOLDER-OF-MODULES [--measure]: the page over a living
# testbed, or what it costs.
set -eu
CARILLON_BIN_DIR=$PWD
# A socket's path is short.
scratch=$(mktemp -d /tmp/browser-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
CARILLON_RUNTIME_DIR=$scratch/run HOME=$scratch
mkdir -m 700 "$CARILLON_RUNTIME_DIR"
export CARILLON_BIN_DIR CARILLON_RUNTIME_DIR HOME
script=main
if [ "${4:-}" = --measure ]; then script=measure; fi
"$1" tools/dashboard/browser/$script.mjs "$2" "$3" "$scratch"
