#!/bin/bash
# The bounded form of a fuzz target: finds a planted bug by mutation, leaves the
# input that did it, and runs that again.
set -euo pipefail
target=$PWD/$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TEST_UNDECLARED_OUTPUTS_DIR=$work/found
mkdir "$work/found" "$work/seeds"
printf AB >"$work/seeds/good"

fail() {
  echo "$1" >&2
  cat "$work/said" >&2
  exit 1
}

"$target" -runs=0 "$work/seeds" >"$work/said" 2>&1 || fail "the seed alone has no bug"
grep -q '1 inputs and 0 mutations of them: nothing found' "$work/said" || fail "no summary"

"$target" "$work/seeds/good" >"$work/said" 2>&1 && fail "the planted bug was not found"
grep -q 'the second is' "$work/said" || fail "the property's words are missing"
crash=("$work"/found/crash-*)
[ -s "${crash[0]}" ] || fail "the input was not kept"
cp "${crash[0]}" "$work/again"

"$target" -runs=0 "$work/again" >"$work/said" 2>&1 && fail "the kept input does not do it again"
grep -qF "$work/again" "$work/said" || fail "the file is not named"

for wrong in "$work/missing" -nonsense -dict="$work/again"; do
  "$target" "$wrong" >"$work/said" 2>&1 && fail "$wrong is no error"
done
"$target" >"$work/said" 2>&1 && fail "no inputs are no error"
true
