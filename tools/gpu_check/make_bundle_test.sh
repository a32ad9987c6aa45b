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
  if compgen -G "$work/*.??????" >/dev/null; then
    echo "FAILED: $*: leaves $(compgen -G "$work/*.??????")"
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
mkdir "$work/mine" && touch "$work/mine/precious"
run 1 'not touched' --out="$work/mine" --toolkit=13.0 "$program"
[ -e "$work/mine/precious" ] || failures=$((failures + 1))
CARILLON_BUNDLE_BYTES=1000000 run 1 'at most 1 MB' --out="$work/b" --toolkit=13.0 "$program"
[ ! -e "$work/b" ] || failures=$((failures + 1))

[ "$failures" = 0 ] && echo PASSED
[ "$failures" = 0 ]
