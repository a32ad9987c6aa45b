#!/bin/bash
# Makes the bundle, and starts it with nothing of this machine but its kernel and
# /bin/sh: what a GPU machine has, too. It passes there only what needs no GPU;
# with another driver, whatever that can do.
#   bundle_test.sh MAKE_BUNDLE LIBCUDA SIMULATED_LIBCUDA ARGUMENT OF MAKE_BUNDLE...
# LIBCUDA: a driver for a dry run, whose kernels are C++ functions. The simulated one
# executes the PTX that is in the bundle. Both take CARILLON_FAKE_CUDA.
set -euo pipefail

make=$PWD/$1
# The folder of the real file: beside it lies nothing that is not a library.
driver=$(dirname "$(readlink -f "$2")")
simulated=$(dirname "$(readlink -f "$3")")
shift 3
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/bundle_XXXXXX")
# A killed run's last step may still be writing there.
trap 'rm -rf "$work" || true' EXIT
failures=0

check() { # what, expected, found
  if [ "$2" = "$3" ]; then return; fi
  echo "FAILED: $1: expected '$2', found '$3'"
  failures=$((failures + 1))
}

mkdir "$work/elsewhere"
"$make" --tar --out="$work/made here" --revision=0123abc "$@" >"$work/said"
cat "$work/said"
# What it was made at, and from, does not matter, nor where it is unpacked.
tar -C "$work/elsewhere" -xzf "$work/made here.tar.gz"
packed_bytes=$(wc -c <"$work/made here.tar.gz")
rm -rf "$work/made here" "$work/made here.tar.gz"
mv "$work/elsewhere/made here" "$work/elsewhere/a bundle"
bundle="$work/elsewhere/a bundle"
grep -q ' MB, revision 0123abc' "$work/said" || check "the size is told" yes no
check "libraries of the driver in it" 0 \
  "$(find "$bundle" -name 'libcuda*' -o -name 'libnvidia*' | wc -l)"
bytes=$(find "$bundle" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
check "at most 90 MB" yes "$([ "$bytes" -le 90000000 ] && echo yes || echo "$bytes")"
check "at most 45 MB packed" yes \
  "$([ "$packed_bytes" -le 45000000 ] && echo yes || echo "$packed_bytes")"

cd /
# Every program starts and finds its libraries.
for program in "$bundle"/programs/*; do
  code=0
  env -i "$bundle/bin/${program##*/}" --help >"$work/help" 2>&1 || code=$?
  # The examples have no options: they say that there is no testbed.
  case ${program##*/} in sensor | saxpy_device) wanted=1 ;; *) wanted=0 ;; esac
  check "exit code of ${program##*/} --help" "$wanted" "$code"
  # No library but the bundle's.
  foreign=$(env -i LD_TRACE_LOADED_OBJECTS=1 "$bundle/lib/ld-linux-x86-64.so.2" \
    --library-path "$bundle/lib" "$program" | sed -n 's/.*=> \(\/.*\) (0x.*/\1/p' |
    grep -cv "^$bundle/lib/" || true)
  check "libraries of ${program##*/} from elsewhere" 0 "$foreign"
done

# Without a GPU: one sentence, its own code, and nothing else is done.
code=0
env -i CARILLON_FAKE_CUDA=devices=0 LD_LIBRARY_PATH="$driver" \
  "$bundle/gpu_check" --out "$work/none" >"$work/out" 2>"$work/err" || code=$?
check "exit code without a GPU" 77 "$code"
check "lines without a GPU" "0 1" "$(wc -l <"$work/out") $(wc -l <"$work/err")"
check "results without a GPU" no "$([ -e "$work/none" ] && echo yes || echo no)"

# With a driver that is too old: the same, and it says which one is needed.
code=0
env -i CARILLON_FAKE_CUDA=version=12.4 LD_LIBRARY_PATH="$driver" \
  "$bundle/gpu_check" --out "$work/none" >"$work/out" 2>"$work/err" || code=$?
check "exit code with an old driver" 1 "$code"
check "lines with an old driver" "0 1" "$(wc -l <"$work/out") $(wc -l <"$work/err")"
check "an old driver is named" yes \
  "$(grep -q 'driver 12.4 is too old: needs 1[0-9.]* or newer' "$work/err" && echo yes || cat "$work/err")"

# A folder that cannot be made.
code=0
env -i "$bundle/gpu_check" --dry-run --out /proc/none >"$work/out" 2>"$work/err" || code=$?
check "exit code without a folder" 1 "$code"
check "a folder that cannot be made is named" yes \
  "$(grep -q 'cannot make /proc/none: .*; --out takes another' "$work/err" && echo yes || cat "$work/err")"

for mode in "" "--driver=$driver" "--driver=$simulated"; do
  code=0
  # A busy machine takes longer than a GPU's session has.
  env -i "$bundle/gpu_check" --dry-run --seconds 1500 ${mode:+"$mode"} \
    --out "$work/results" >"$work/table" 2>"$work/progress" || code=$?
  cat "$work/progress" "$work/table"
  check "exit code of the dry run $mode" 0 "$code"
  # Each part has a line, whether it has steps of its own or not.
  for part in $(env -i "$bundle/gpu_check" --list | sed -n 's/^\([a-z]*\) .*/\1/p'); do
    check "lines of $part in the table" 1 "$(grep -c "^$part " "$work/table")"
  done
  check "all steps were run" 0 "$(grep -c '^not run' "$work/table" || true)"
  # The three files hold what lies in the folder.
  mkdir "$work/unpacked"
  tar -C "$work/unpacked" -xzf "$work/results/results.tar.gz"
  check "files in results.tar.gz" "" \
    "$(diff -rq "$work/unpacked" "$work/results" | grep -v "Only in $work/results: \(all\.\|results\.tar\)" || true)"
  check "steps in all.txt" "$(grep -c '"result"' "$work/results/state.json")" \
    "$(grep -c '^=== ' "$work/results/all.txt")"
  rm -rf "$work/unpacked"
  if [ -n "$mode" ]; then
    check "launch paths with a latency in the table" 8 \
      "$(sed -n '/^latency /,/^load /p' "$work/table" | grep -c 'warp p50 [0-9.]*[1-9]')"
  fi
  if [ "$code" != 0 ]; then
    for file in "$work"/results/*.err; do echo "--- $file" && tail -n 5 "$file"; done
  fi
done

# Killed in the middle: what had ended is there, whole.
rm -rf "$work/results"
env -i "$bundle/gpu_check" --dry-run --out "$work/results" >"$work/out" 2>&1 &
runner=$!
for _ in $(seq 600); do
  [ ! -e "$work/results/results.tar.gz" ] || break
  sleep 0.05
done
kill -KILL "$runner"
wait "$runner" || true
check "all.txt of a killed run" yes \
  "$(grep -q '^=== info/device: passed' "$work/results/all.txt" && echo yes || echo no)"
check "results.tar.gz of a killed run" yes \
  "$(tar -tzf "$work/results/results.tar.gz" | grep '^info.device.out$' >/dev/null && echo yes || echo no)"

[ "$failures" = 0 ] && echo PASSED
[ "$failures" = 0 ]
