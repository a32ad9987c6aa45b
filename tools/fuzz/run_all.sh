#!/bin/bash
# Runs every fuzzer (docs/fuzzing.md) until each has so many executions on record,
# one at a time, those that are fastest first.
#
# usage: run_all.sh [--executions N] [--folder DIR] [--table] [TARGET...]
#   --executions N  of each target (default: 10000000)
#   --folder DIR    keeps what was found, the record and the logs; the next run
#                   goes on from there (default: /tmp/carillon_fuzz)
#   --table         print the record so far, in Markdown, and end
#   TARGET          a label; default: all that are named *_fuzz
#
# Ctrl-C ends it: what has run by then is on record. A finding is left in
# DIR/NAME/findings, is on record, and its target is not run again before the finding has
# been moved away. Exit codes: 0 all have run and found nothing, 1 a finding, or
# one does not build, 2 wrong usage, 130 interrupted.
set -u

executions=10000000
folder=/tmp/carillon_fuzz
table=''
targets=()
die() {
  printf 'run_all.sh: %s\n' "$2" >&2
  exit "$1"
}
while [ $# -gt 0 ]; do
  case $1 in
    --executions | --folder)
      [ $# -ge 2 ] || die 2 "$1 needs a value"
      if [ "$1" = --folder ]; then folder=$2; else executions=$2; fi
      shift
      ;;
    --table) table=1 ;;
    //*:*_fuzz) targets+=("$1") ;;
    *) die 2 "'$1' is no option and no fuzz target; see the head of $0" ;;
  esac
  shift
done
[[ $executions =~ ^[1-9][0-9]{0,12}$ ]] || die 2 "--executions $executions: must be a number from 1"

root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
mkdir -p -- "$folder" && folder=$(cd -P -- "$folder" && pwd) || exit 1
# A line for each run: target, executions, seconds, edges, features, inputs, findings.
record=$folder/record
touch "$record" || exit 1

print_table() {
  echo '| target | executions | seconds | a second | edges | features | inputs | findings |'
  echo '|---|---|---|---|---|---|---|---|'
  awk -F '\t' '
    function commas(n, text) {
      for (text = ""; n >= 1000; n = int(n / 1000)) text = sprintf(",%03d", n % 1000) text
      return n text
    }
    { runs[$1] += $2; seconds[$1] += $3; edges[$1] = $4; features[$1] = $5; inputs[$1] = $6; found[$1] += $7 }
    END {
      for (target in runs) {
        rate = seconds[target] > 0 ? int(runs[target] / seconds[target]) : 0
        printf "| `%s` | %s | %s | %s | %s | %s | %s | %d |\n", target, commas(runs[target]),
          commas(seconds[target]), commas(rate), commas(edges[target]), commas(features[target]),
          commas(inputs[target]), found[target]
      }
    }' "$record" | sort
}
if [ -n "$table" ]; then
  print_table
  exit 0
fi

cd "$root" || exit 1
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(bazel query 'attr(name, "_fuzz$", kind("cc_test", //...))' 2> /dev/null)
  [ ${#targets[@]} -gt 0 ] || die 1 'bazel query finds no fuzz target'
fi

failed=0
# A program that runs a target with its arguments, and holds no lock of Bazel's.
built=()
for target in "${targets[@]}"; do
  home=$folder/${target##*:}
  mkdir -p "$home/inputs" "$home/findings" || exit 1
  if bazel run --config=fuzz --noshow_progress --script_path="$home/run" "$target" \
    > "$home/build.log" 2>&1; then
    built+=("$target")
  else
    echo "$target does not build: $home/build.log" >&2
    failed=1
  fi
done

recorded() { awk -F '\t' -v t="$1" '$1 == t { n += $2 } END { print n + 0 }' "$record"; }
rate_of() { awk -F '\t' -v t="$1" '$1 == t { n += $2; s += $3 } END { print int(n / (s + 1)) }' "$record"; }
corpus_of() { # $1: label
  local place=${1#//}
  place=${place/:/\/}
  echo "$root/${place%_fuzz}_corpus"
}

# Most inputs are done in some 50 us, of which AddressSanitizer's own defaults take
# up to a fifth. A finding that is run again by itself has whole stacks.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=2:quarantine_size_mb=16}

fuzzer=''
stop() {
  # What it last reported counts, which is no more than what it ran.
  [ -z "$fuzzer" ] || kill -TERM "$fuzzer" 2> /dev/null
  stopped=1
}
stopped=''
trap stop INT TERM HUP

# $1: target, $2: executions, those on record included.
run() {
  local home=$folder/${1##*:} left=$(($2 - $(recorded "$1"))) log began code
  [ $left -gt 0 ] && [ -z "$stopped" ] || return 0
  if compgen -G "$home/findings/[clot]*-*" > /dev/null; then # crash, leak, oom, timeout
    echo "$1: not run: a finding is in $home/findings" >&2
    failed=1
    return 0
  fi
  log=$home/log
  began=$SECONDS
  bash "$home/run" -runs="$left" -print_final_stats=1 -timeout=60 -rss_limit_mb=4096 \
    -artifact_prefix="$home/findings/" "$home/inputs" "$(corpus_of "$1")" > "$log" 2>&1 &
  fuzzer=$!
  wait "$fuzzer"
  code=$?
  # A signal ends the first wait before the fuzzer has ended.
  wait "$fuzzer" 2> /dev/null
  fuzzer=''
  awk -v target="$1" -v seconds=$((SECONDS - began)) -v code=$code -v stopped="$stopped" '
    /^#[0-9]+/ {
      for (i = 1; i < NF; ++i) {
        if ($i == "cov:") edges = $(i + 1)
        if ($i == "ft:") features = $(i + 1)
        if ($i == "corp:") inputs = int($(i + 1))
      }
      runs = substr($1, 2) + 0
    }
    /^stat::number_of_executed_units/ { runs = $2 }
    END {
      printf "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", target, runs, seconds, edges, features, inputs,
        code != 0 && stopped == ""
    }' "$log" >> "$record"
  if [ $code -ne 0 ] && [ -z "$stopped" ]; then
    echo "$1: a finding; see $log" >&2
    failed=1
  fi
  echo "$1: $(recorded "$1") executions"
}

# The first thousandth tells how fast each is.
for target in "${built[@]}"; do run "$target" $((executions / 1000 + 1)); done
mapfile -t built < <(for target in "${built[@]}"; do
  printf '%s %s\n' "$(rate_of "$target")" "$target"
done | sort -rn | cut -d ' ' -f 2)
for target in "${built[@]}"; do run "$target" "$executions"; done

print_table
[ -z "$stopped" ] || exit 130
exit $failed
