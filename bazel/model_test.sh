#!/bin/bash
# Checks a model with spin: model_test.sh MODEL CHECKS [full]. CHECKS is a script
# of calls of the functions below; $full is not empty if the larger
# configurations are wanted, too.
set -u

model=$PWD/$1
checks=$PWD/$2
full=${3:-}
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
  ./pan -E -m500000 2>&1
}

wrong() {
  echo "WRONG $1"
  head -20 <<<"$2"
  failures=$((failures + 1))
}

# holds <defines...>: no property breaks, and the search is complete.
holds() {
  local report
  report=$(check -O2 "$@")
  if grep -q 'errors: 0' <<<"$report" && ! grep -qE 'max search depth|out of memory' <<<"$report"; then
    echo "ok    holds: $* ($(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' <<<"$report") states)"
  else
    wrong "does not hold: $*" "$report"
  fi
}

# breaks <assertion that must fail, one of them> <defines...>
breaks() {
  local report expected=$1
  shift
  report=$(check -O0 "$@")
  if grep -E 'assertion violated' <<<"$report" | grep -qE "$expected"; then
    echo "ok    found: $*"
  else
    wrong "not found ($expected): $*" "$report"
  fi
}

# shellcheck source=/dev/null
source "$checks"
exit $((failures > 0))
