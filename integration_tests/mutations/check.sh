#!/bin/bash
# Plants bugs in a copy of the tree, one at a time, and runs the tests that must
# find them. Each *.patch beside this file is a bug: its first line says which,
# "Tests:" names the tests, of which at least one must fail; "Runs:" how often they
# run, where it takes luck.
#
# usage: check.sh [--list] [--tenth N] [--seconds N] [--scratch DIR] [BUG...]
#                 [-- BAZEL ARGUMENTS]
#   --list         print the bugs and their tests, and end
#   --tenth N      of the bugs, in order, each tenth from the (N mod 10)th on, the
#                  0th being the first; CI takes the number of the day
#   --seconds N    plants no other bug once this has run for so long; the first
#                  one is planted in any case, and those left out are named
#   --scratch DIR  the copy, logs and Bazel's output; kept for the next run
#                  (default: a folder in $TMPDIR that is removed at the end)
#   BUG            a patch's name; default: all
#
# Prints a table. Exit codes: 0 every bug that was planted was found, 1 one was not (or does not
# apply, or does not build, or its tests fail without it), 2 wrong usage, 130
# interrupted, with all found until then.
set -u

die() { # $1: exit code
  printf 'check.sh: %s\n' "$2" >&2
  exit "$1"
}

here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || exit 1
root=$(cd -P -- "$here/../.." && pwd) || exit 1

bugs=()
bazel_arguments=()
scratch=''
list=''
tenth=''
seconds=''
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=1 ;;
    --scratch)
      [ $# -ge 2 ] || die 2 '--scratch needs a folder'
      scratch=$2
      shift
      ;;
    --tenth | --seconds)
      [[ ${2:-} =~ ^[0-9]{1,9}$ ]] || die 2 "$1 needs a number"
      if [ "$1" = --tenth ]; then tenth=$((10#$2 % 10)); else seconds=$((10#$2)); fi
      shift
      ;;
    --)
      shift
      bazel_arguments=("$@")
      break
      ;;
    -*) die 2 "unknown option '$1'; see the head of $here/check.sh" ;;
    *)
      [ -f "$here/$1.patch" ] || die 2 "no bug '$1'; --list prints all"
      bugs+=("$1")
      ;;
  esac
  shift
done
if [ ${#bugs[@]} -eq 0 ]; then
  for patch in "$here"/*.patch; do bugs+=("$(basename "$patch" .patch)"); done
fi
if [ -n "$tenth" ]; then
  all=("${bugs[@]}")
  bugs=()
  for ((i = tenth; i < ${#all[@]}; i += 10)); do bugs+=("${all[i]}"); done
  [ ${#bugs[@]} -gt 0 ] || die 2 "there are ${#all[@]} bugs, and none is the ${tenth}th"
fi

about() { head -n 1 "$here/$1.patch"; }
tests_of() { sed -n 's/^Tests: //p' "$here/$1.patch"; }
runs_of() { sed -n 's/^Runs: \([1-9][0-9]*\)$/\1/p' "$here/$1.patch"; }

if [ -n "$list" ]; then
  for bug in "${bugs[@]}"; do
    printf '%s: %s\n    %s\n' "$bug" "$(about "$bug")" "$(tests_of "$bug")"
  done
  exit 0
fi

keep=$scratch
if [ -z "$keep" ]; then
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/carillon_mutations.XXXXXX") || exit 1
else
  mkdir -p -- "$scratch" && scratch=$(cd -P -- "$scratch" && pwd) || exit 1
fi
tree=$scratch/tree
logs=$scratch/logs

run_bazel() { # $1: command
  (cd "$tree" && exec bazel --output_base="$scratch/bazel" "$@")
}

clean_up() {
  if [ -d "$tree" ]; then run_bazel shutdown >/dev/null 2>&1; fi
  if [ -z "$keep" ]; then
    chmod -R u+w "$scratch" # Bazel's outputs are read-only
    rm -rf "$scratch"
  fi
}
trap clean_up EXIT
missed=0 # 1: a bug that was planted was not found
trap 'exit $((missed ? 1 : 130))' INT TERM HUP

# rm of the copy only: what Bazel has built in it lies beside it.
rm -rf "$tree" "$logs"
mkdir -p "$tree" "$logs" || exit 1
tar -C "$root" --exclude=./.git --exclude='./bazel-*' -cf - . | tar -C "$tree" -xf - ||
  die 1 "cannot copy $root to $tree"

# $1: log, $2: a test's time limit, s, or -1 for its own, $3: runs of each; then
# tests. Bazel's exit code: 0 passed, 3 some failed.
run_tests() {
  local log=$1 limit=$2 runs=$3
  shift 3
  run_bazel test --keep_going --symlink_prefix=/ --color=no --curses=no \
    --noshow_progress --test_output=summary --test_runner_fail_fast \
    --test_timeout="$limit" --runs_per_test="$runs" \
    "${bazel_arguments[@]}" -- "$@" >"$log" 2>&1
}

# A time limit for tests that may hang, s: far from what they took without a bug.
limit_of() {
  local test took limit=100
  for test; do
    took=$(sed -nE "s|^$test +(\(cached\) )?PASSED in ([0-9]+).*|\2|p" "$logs/no_bug")
    if [ $((30 + 5 * ${took:-60})) -gt $limit ]; then limit=$((30 + 5 * ${took:-60})); fi
  done
  echo $limit
}

# The first failed case that the tests of a log tell of; else where the first of
# them hung or crashed.
first_failure() {
  local label verdict folder log case silent=''
  while read -r label verdict; do
    folder=$outputs/$(tr ':' '/' <<<"${label#//}")
    log=$(cat "$folder"/test.log "$folder"/run_*/test.log 2>/dev/null)
    case=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' <<<"$log" | head -n 1)
    if [ -n "$case" ]; then
      printf '%s: %s\n' "$label" "$case"
      return
    fi
    case=$(sed -n 's/^\[ RUN      \] //p' <<<"$log" | tail -n 1)
    silent=${silent:-$label: $verdict in ${case:-it}}
  done < <(sed -nE 's/^(\/\/[^ ]+) +(\(cached\) )?(FAILED|TIMEOUT).*/\1 \3/p' "$1")
  echo "$silent"
}

row() { printf '%-30s %-13s %5s  %s\n' "$1" "$2" "$3" "$4"; }

all_tests=()
for bug in "${bugs[@]}"; do
  read -ra tests < <(tests_of "$bug")
  [ ${#tests[@]} -gt 0 ] || die 1 "$bug.patch names no tests"
  all_tests+=("${tests[@]}")
done
mapfile -t all_tests < <(printf '%s\n' "${all_tests[@]}" | sort -u)

if ! run_tests "$logs/no_bug" -1 1 "${all_tests[@]}"; then
  cat "$logs/no_bug" >&2
  die 1 'these tests must pass before a bug is planted'
fi
outputs=$(run_bazel info bazel-testlogs 2>/dev/null) || die 1 'bazel info failed'

row bug verdict s 'first failure'
found=0
planted=0
for bug in "${bugs[@]}"; do
  if [ -n "$seconds" ] && [ "$planted" -gt 0 ] && [ "$SECONDS" -ge "$seconds" ]; then
    row "$bug" 'not run' '' "$seconds s were over"
    continue
  fi
  planted=$((planted + 1))
  patch=$here/$bug.patch
  began=$SECONDS
  if ! patch -d "$tree" -p1 --fuzz=0 --dry-run -s -f <"$patch" >"$logs/$bug" 2>&1; then
    missed=1
    row "$bug" 'DOES NOT APPLY' '' "$(tail -n 1 "$logs/$bug")"
    continue
  fi
  patch -d "$tree" -p1 --fuzz=0 --no-backup-if-mismatch -s -f <"$patch"
  read -ra tests < <(tests_of "$bug")
  runs=$(runs_of "$bug")
  run_tests "$logs/$bug" "$(limit_of "${tests[@]}")" "${runs:-1}" "${tests[@]}"
  result=$?
  patch -d "$tree" -R -p1 --fuzz=0 --no-backup-if-mismatch -s -f <"$patch"
  took=$((SECONDS - began))
  case $result in
    0) row "$bug" 'NOT FOUND' $took "${tests[*]} passed: a test is missing" ;;
    3)
      row "$bug" found $took "$(first_failure "$logs/$bug")"
      found=$((found + 1))
      ;;
    8) exit $((missed ? 1 : 130)) ;;
    *) row "$bug" 'NO VERDICT' $took "bazel's exit code $result" ;;
  esac
  if [ "$result" -ne 3 ]; then
    missed=1
    grep -E '^(ERROR|FAILED)|error:' "$logs/$bug" | head -n 5 >&2
  fi
done
printf '%d planted bugs, %d found\n' $planted $found
[ $found -eq $planted ]
