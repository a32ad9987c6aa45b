#!/bin/bash
# Makes the bundle, and starts it with nothing of this machine but its kernel and
# /bin/sh: what a GPU machine has, too. It passes there only what needs no GPU;
# with a fake driver, whatever that can do.
#   bundle_test.sh MAKE_BUNDLE FAKE_DRIVER ARGUMENT OF MAKE_BUNDLE...
set -euo pipefail

make=$PWD/$1
# The folder of the real file: beside it lies nothing that is not a library.
fake=$(dirname "$(readlink -f "$2")")
shift 2
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/bundle_XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0

check() { # what, expected, found
  if [ "$2" = "$3" ]; then return; fi
  echo "FAILED: $1: expected '$2', found '$3'"
  failures=$((failures + 1))
}

mkdir "$work/elsewhere"
"$make" --out="$work/made here" --revision=0123abc "$@" >"$work/said"
cat "$work/said"
# What it was made at, and from, does not matter.
mv "$work/made here" "$work/elsewhere/a bundle"
bundle="$work/elsewhere/a bundle"
grep -q ' MB, revision 0123abc' "$work/said" || check "the size is told" yes no
check "libraries of the driver in it" 0 \
  "$(find "$bundle" -name 'libcuda*' -o -name 'libnvidia*' | wc -l)"
bytes=$(find "$bundle" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
check "at most 66 MB" yes "$([ "$bytes" -le 66000000 ] && echo yes || echo "$bytes")"

cd /
# Every program starts and finds its libraries.
for program in "$bundle"/programs/*; do
  code=0
  env -i "$bundle/bin/${program##*/}" --help >"$work/help" 2>&1 || code=$?
  check "exit code of ${program##*/} --help" 0 "$code"
  # No library but the bundle's.
  foreign=$(env -i LD_TRACE_LOADED_OBJECTS=1 "$bundle/lib/ld-linux-x86-64.so.2" \
    --library-path "$bundle/lib" "$program" | sed -n 's/.*=> \(\/.*\) (0x.*/\1/p' |
    grep -cv "^$bundle/lib/" || true)
  check "libraries of ${program##*/} from elsewhere" 0 "$foreign"
done

# Without a GPU: one sentence, its own code, and nothing else is done.
code=0
env -i CARILLON_FAKE_CUDA=devices=0 LD_LIBRARY_PATH="$fake" \
  "$bundle/gpu_check" --out "$work/none" >"$work/out" 2>"$work/err" || code=$?
check "exit code without a GPU" 77 "$code"
check "lines without a GPU" "0 1" "$(wc -l <"$work/out") $(wc -l <"$work/err")"
check "results without a GPU" no "$([ -e "$work/none" ] && echo yes || echo no)"

for mode in "" "--fake=$fake"; do
  code=0
  env -i "$bundle/gpu_check" --dry-run ${mode:+"$mode"} \
    --out "$work/results" >"$work/table" 2>"$work/progress" || code=$?
  cat "$work/progress" "$work/table"
  check "exit code of the dry run $mode" 0 "$code"
  # The heading, a part each, and where the results are.
  check "lines of the table" "$(($(env -i "$bundle/gpu_check" --list | grep -c '^[a-z]') + 2))" \
    "$(wc -l <"$work/table")"
  if [ "$code" != 0 ]; then
    for file in "$work"/results/*.err; do echo "--- $file" && tail -n 5 "$file"; done
  fi
done

[ "$failures" = 0 ] && echo PASSED
[ "$failures" = 0 ]
