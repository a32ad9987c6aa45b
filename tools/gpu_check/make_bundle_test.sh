#!/bin/bash
# What make_bundle.sh refuses and keeps its hands off.
#   make_bundle_test.sh MAKE_BUNDLE
set -euo pipefail

make=$PWD/$1
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/make_XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0
program=/bin/true

run() { # expected code, expected words, arguments...
  local want=$1 words=$2 code=0
  shift 2
  "$make" "$@" >"$work/said" 2>&1 || code=$?
  if [ "$code" != "$want" ] || ! grep -q -- "$words" "$work/said"; then
    echo "FAILED: $*: code $code, not $want, or not '$words' in:"
    cat "$work/said"
    failures=$((failures + 1))
  fi
  # As mktemp names them: no dot, unlike an archive's "tar.gz".
  if compgen -G "$work/*.[!.][!.][!.][!.][!.][!.]" >/dev/null ||
    compgen -G "$work/*.*.tar.gz" >/dev/null; then
    echo "FAILED: $*: leaves something in $(ls "$work")"
    failures=$((failures + 1))
  fi
}

run 3 'no CUDA toolkit' --out="$work/a" --toolkit=
run 2 'says where' --toolkit=13.0 "$program"
run 2 'no option --big' --out="$work/a" --toolkit=13.0 --big "$program"
run 1 'cannot strip' --out="$work/a" --toolkit=13.0 "$work/none"
run 0 'run there: a/gpu_check' --out="$work/a" --toolkit=13.0 "$program"
run 0 'run there: a/gpu_check' --out="$work/a" --toolkit=13.0 "$program" # again
"$work/a/bin/true"
[ -x "$work/a/lib/libdl.so.2" ] || failures=$((failures + 1))
run 0 'run there: a\\ b/gpu_check' --out="$work/a b" --toolkit=13.0 "$program"
mkdir "$work/mine" && touch "$work/mine/precious"
run 1 'not touched' --out="$work/mine" --toolkit=13.0 "$program"
[ -e "$work/mine/precious" ] || failures=$((failures + 1))
CARILLON_BUNDLE_BYTES=1000000 run 1 'at most 1 MB' --out="$work/b" --toolkit=13.0 "$program"
[ ! -e "$work/b" ] || failures=$((failures + 1))
run 0 'needs an NVIDIA driver for CUDA 13.0' --out="$work/a" --toolkit=13.1 "$program"
# Packed: one file, which unpacks elsewhere under the bundle's name and runs there.
run 0 'tar xzf c.tar.gz && c/gpu_check' --tar --out="$work/c" --toolkit=13.0 "$program"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xzf "$work/c.tar.gz"
if ! diff -r "$work/c" "$work/elsewhere/c" || [ "$(ls "$work/elsewhere")" != c ]; then
  echo "FAILED: the archive holds something else than the bundle"
  failures=$((failures + 1))
fi
"$work/elsewhere/c/bin/true" || failures=$((failures + 1))
CARILLON_BUNDLE_PACKED_BYTES=1000000 run 1 'packed bundle has at most 1 MB' \
  --tar --out="$work/d" --toolkit=13.0 "$program"
[ ! -e "$work/d" ] && [ ! -e "$work/d.tar.gz" ] || failures=$((failures + 1))
# An archive of an earlier bundle must not outlive it.
run 0 'run there: c/gpu_check' --out="$work/c" --toolkit=13.0 "$program"
[ ! -e "$work/c.tar.gz" ] || failures=$((failures + 1))

[ "$failures" = 0 ] && echo PASSED
[ "$failures" = 0 ]
