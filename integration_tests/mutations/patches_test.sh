#!/bin/bash
# Every planted bug says what it is, names its tests and applies to the tree.
set -u

here=integration_tests/mutations
work=${TEST_TMPDIR:?is set by Bazel}
failures=0

fail() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}

count=0
for patch in "$here"/*.patch; do
  count=$((count + 1))
  head -n 1 "$patch" | grep -Eq '^[A-Za-z].*\.$' || fail "$patch: line 1 is no sentence"
  grep -Eq '^Tests: //[^ ]+( //[^ ]+)*$' "$patch" || fail "$patch names no tests"
  while read -r file; do
    if [ ! -f "$file" ]; then
      fail "$patch changes $file: add it to data in $here/BUILD"
      continue
    fi
    mkdir -p "$work/$(dirname "$file")"
    cp -f "$file" "$work/$file"
    chmod u+w "$work/$file"
  done < <(sed -n 's/^+++ b\///p' "$patch")
  # The same as in check.sh.
  patch -d "$work" -p1 --fuzz=0 --dry-run -s -f <"$patch" ||
    fail "$patch does not apply: make it again"
done
[ $count -gt 0 ] || fail 'there are no patches'
[ $failures -eq 0 ]
