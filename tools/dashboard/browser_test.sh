#!/bin/sh
# browser_test.sh NODE CHROMIUM FOLDER-OF-MODULES [--page FOLDER | --measure | --frames ...]: the
# page over a living testbed, what it costs, or the frames that it draws.
set -eu
CARILLON_BIN_DIR=$PWD
# A socket's path is short.
scratch=$(mktemp -d /tmp/browser-XXXXXX)
# A script that fails on its way leaves its testbed.
trap 'tools/cli/carillon down --all >"$scratch/down" 2>&1 || :; rm -rf "$scratch"' EXIT
CARILLON_RUNTIME_DIR=$scratch/run HOME=$scratch
mkdir -m 700 "$CARILLON_RUNTIME_DIR"
export CARILLON_BIN_DIR CARILLON_RUNTIME_DIR HOME
node=$1 chromium=$2 modules=$3
shift 3
script=main
case ${1:-} in
--measure) script=measure && shift ;;
--frames) script=frames && shift ;;
esac
"$node" "tools/dashboard/browser/$script.mjs" "$chromium" "$modules" "$scratch" "$@"
