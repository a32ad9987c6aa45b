#!/bin/bash
# Checks ring.pml with spin: the protocol holds, and each of its known mistakes
# is found, by the property that it breaks. With the argument "full", also the
# larger configurations (about two minutes, 3 GB).
set -u

model=$PWD/shm/ring.pml
work=${TEST_TMPDIR:?is set by Bazel}
cd "$work" || exit 1
failures=0

# check <optimization> <defines...>: pan's report.
check() {
  local optimize=$1
  shift
  rm -f pan pan.* # a stale pan must not answer for this variant
  spin -a "$@" "$model" >spin.log 2>&1 || { cat spin.log; return 1; }
  gcc "$optimize" -w -DSAFETY -o pan pan.c || return 1
  # -E: processes that wait at the end are for the model's own Judge.
  ./pan -E -m200000 2>&1
}

holds() {
  local report
  report=$(check -O2 "$@")
  if grep -q 'errors: 0' <<<"$report" && ! grep -qE 'max search depth|out of memory' <<<"$report"; then
    echo "ok    holds: ${*:-defaults} ($(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' <<<"$report") states)"
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
  report=$(check -O0 -DSLOTS=1 -DEVENTS=2 "$@")
  if grep -E 'assertion violated' <<<"$report" | grep -qE "$expected"; then
    echo "ok    found: $*"
  else
    echo "WRONG not found ($expected): $*"
    echo "$report" | head -20
    failures=$((failures + 1))
  fi
}

for flavour in '' -DEPOLL; do
  holds -DSLOTS=1 -DEVENTS=2 $flavour
  holds -DSLOTS=2 -DEVENTS=2 $flavour
done
if [ "${1:-}" = full ]; then
  holds -DSLOTS=2 -DEVENTS=3
  holds -DSLOTS=2 -DEVENTS=3 -DEPOLL
  holds -DSLOTS=2 -DEVENTS=2 -DWORKERS=2
  holds -DSLOTS=2 -DEVENTS=2 -DWORKERS=2 -DEPOLL
fi

# An endless sleep shows as a device or front-end that never leaves.
endless='device_left|front_end_left|consumed==2'
torn='esq_first|esq_second|ecq_state'
for mistake in WAKER_CLEARS NO_RECHECK SUMMARY_LATE NO_FENCE NO_WAKE_ON_DEATH; do
  breaks "$endless" -D$mistake=1
  breaks "$endless" -D$mistake=2
done
for mistake in WAKER_CLEARS NO_RECHECK NO_FENCE NO_WAKE_ON_DEATH; do
  breaks "$endless" -D$mistake=2 -DEPOLL
done
breaks "$torn" -DPUBLISH_FIRST=1
breaks "$torn" -DPUBLISH_FIRST=2
breaks "$torn|bell-seen" -DNO_FREE_CHECK=1
breaks "bell-seen" -DFREE_LATE=1
breaks "$endless" -DCLOSE_LATE=1
breaks "$endless" -DCLOSE_LATE=1 -DEPOLL

exit $((failures > 0))
