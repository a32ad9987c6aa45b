#!/bin/bash
# Checks edge_relay.pml with spin: the relay holds, and each of its known
# mistakes is found, by a property that it breaks.
set -u

model=$PWD/gpu_daemon/backends/cuda/edge_relay.pml
work=${TEST_TMPDIR:?is set by Bazel}
cd "$work" || exit 1
failures=0

# check <defines...>: pan's report.
check() {
  rm -f pan pan.* # a stale pan must not answer for this variant
  spin -a "$@" "$model" >spin.log 2>&1 || { cat spin.log; return 1; }
  gcc -O1 -w -DSAFETY -o pan pan.c || return 1
  # -E: processes that wait at the end are for the model's own Judge.
  ./pan -E -m500000 2>&1
}

holds() {
  local report
  report=$(check "$@")
  if grep -q 'errors: 0' <<<"$report" && ! grep -qE 'max search depth|out of memory' <<<"$report"; then
    echo "ok    holds: $* ($(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' <<<"$report") states)"
  else
    echo "WRONG does not hold: $*"
    echo "$report" | head -20
    failures=$((failures + 1))
  fi
}

# breaks <assertion that must fail> <defines...>
breaks() {
  local report expected=$1
  shift
  report=$(check "$@")
  if grep -E 'assertion violated' <<<"$report" | grep -qE "$expected"; then
    echo "ok    found: $*"
  else
    echo "WRONG not found ($expected): $*"
    echo "$report" | head -20
    failures=$((failures + 1))
  fi
}

holds -DDISPATCHERS=1 -DEVENT_WARPS=2 -DEVENTS=3 -DBUDGET=1
holds -DDISPATCHERS=1 -DEVENT_WARPS=2 -DEVENTS=3 -DBUDGET=2 -DINLINE=2
holds -DDISPATCHERS=1 -DEVENT_WARPS=2 -DEVENTS=3 -DBUDGET=1 -DSTUCK
holds -DDISPATCHERS=2 -DEVENT_WARPS=1 -DEVENTS=3 -DBUDGET=1
holds -DDISPATCHERS=2 -DEVENT_WARPS=1 -DEVENTS=3 -DBUDGET=1 -DINLINE=2
holds -DDISPATCHERS=2 -DEVENT_WARPS=1 -DEVENTS=3 -DBUDGET=1 -DSTUCK
if [ "${1:-}" = full ]; then
  holds -DDISPATCHERS=2 -DEVENT_WARPS=2 -DEVENTS=2 -DBUDGET=1
  holds -DDISPATCHERS=2 -DEVENT_WARPS=2 -DEVENTS=2 -DBUDGET=1 -DSTUCK
fi

twice='launches\[2\]==1'
lost='launches\[n\]==1'
breaks "$twice" -DEVENTS=3 -DEVENT_WARPS=2 -DINLINE=2 -DNO_HALT_WAIT
breaks "$lost|halted|invalid array index" -DEVENTS=2 -DEVENT_WARPS=1 -DNOTE_EARLY
breaks "$lost" -DEVENTS=2 -DEVENT_WARPS=1 -DADVANCE_EARLY
breaks 'in_gap' -DEVENTS=3 -DEVENT_WARPS=1 -DSTUCK -DRELAY_ALWAYS
breaks 'in_gap' -DDISPATCHERS=1 -DEVENTS=3 -DBUDGET=2 -DSTUCK -DINLINE_SKIPPED
breaks "$lost" -DEVENTS=2 -DEVENT_WARPS=1 -DFLAG_BELL

exit $((failures > 0))
