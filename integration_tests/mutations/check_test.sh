#!/bin/bash
# check.sh's verdicts, in a tree of one file with a Bazel whose tests look at it.
set -u

work=${TEST_TMPDIR:?is set by Bazel}
tree=$work/checkout
folder=$tree/integration_tests/mutations
mkdir -p "$folder" "$work/bin" "$work/tmp"
cp integration_tests/mutations/check.sh "$folder/check.sh"
printf 'one\ntwo\n' >"$tree/code"

cat >"$work/bin/bazel" <<'BAZEL'
#!/bin/bash
shift # --output_base
case $1 in
  info) echo /nowhere ;;
  test)
    if grep -q broken code; then exit 1; fi
    if grep -q good code; then exit 0; fi
    if grep -q two code; then echo '//a:test   PASSED in 0.1s'; exit 0; fi
    echo '//a:test   FAILED in 0.1s'
    exit 3
    ;;
esac
BAZEL
chmod +x "$work/bin/bazel"
export PATH=$work/bin:$PATH TMPDIR=$work/tmp

# plant NAME OLD NEW
plant() {
  printf 'A bug.\n\nTests: //a:test\n\n--- a/code\n+++ b/code\n@@ -1,2 +1,2 @@\n one\n-%s\n+%s\n' \
    "$2" "$3" >"$folder/$1.patch"
}
plant is_found two three
plant is_missed two 'two, a good one'
plant does_not_build two broken
plant is_stale zwei drei

failures=0
# expect CODE TEXT ARGUMENTS: what check.sh ends with, and prints.
expect() {
  local code=$1 text=$2 said result
  shift 2
  said=$("$folder/check.sh" "$@" 2>&1)
  result=$?
  if [ "$result" -ne "$code" ] || ! grep -Eq -- "$text" <<<"$said"; then
    printf 'check.sh %s: exit code %s, not %s; wanted "%s" in:\n%s\n' \
      "$*" "$result" "$code" "$text" "$said"
    failures=$((failures + 1))
  fi
}
expect 0 '^is_found +found +[0-9]+  //a:test: FAILED' is_found
expect 1 '^is_missed +NOT FOUND' is_missed
expect 1 '^does_not_build +NO VERDICT' does_not_build
expect 1 '^is_stale +DOES NOT APPLY' is_stale
# One bug is gone from the copy before the next one comes.
expect 1 '^4 planted bugs, 1 found' does_not_build is_stale is_missed is_found
expect 1 '^4 planted bugs, 1 found'
expect 0 '^is_found: A bug' --list
# In order: does_not_build, is_found, is_missed, is_stale.
expect 0 '^1 planted bugs, 1 found' --tenth 20651
expect 0 '^is_found: A bug' --list --tenth 1
expect 1 '^1 planted bugs, 0 found' --tenth 2
expect 2 'none is the 4th' --tenth 14
expect 2 'needs a number' --tenth today
expect 0 '^1 planted bugs, 1 found' --seconds 0 is_found is_missed
expect 0 '^is_missed +not run +0 s were over' --seconds 0 is_found is_missed
expect 2 "no bug 'other'" other
expect 2 'unknown option' --fast
expect 0 found --scratch "$work/kept" is_found
[ "$(cat "$work/kept/tree/code")" = "$(printf 'one\ntwo')" ] || {
  echo 'a bug stays in the copy'
  failures=$((failures + 1))
}
if [ -n "$(ls "$work/tmp")" ]; then
  echo 'the scratch folder stays'
  failures=$((failures + 1))
fi
sed -i 's/two/ein/' "$tree/code"
expect 1 'must pass before a bug is planted' is_found
[ $failures -eq 0 ]
