#!/bin/bash
# The page is small enough to be read in one go, and vendor/ is what its README
# says.
set -euo pipefail
cd tools/dashboard/page

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

total=0
gzipped=0
for file in *.html *.css *.js vendor/*.css vendor/*.js; do
  total=$((total + $(stat -Lc %s "$file")))
  gzipped=$((gzipped + $(gzip -9nc "$file" | wc -c)))
done
echo "$total bytes, $gzipped gzipped"
((total <= 160 * 1024)) || fail "the page has $total bytes, of at most 160 KiB"
((gzipped <= 60 * 1024)) || fail "gzipped it has $gzipped bytes, of at most 60 KiB"

for file in vendor/*.css vendor/*.js; do
  sum=$(sha256sum "$file" | cut -d' ' -f1)
  grep -qF "| \`${file#vendor/}\` " vendor/README.md || fail "vendor/README.md lacks $file"
  grep -F "| \`${file#vendor/}\` " vendor/README.md | grep -qF "\`$sum\`" ||
    fail "$file has the SHA-256 $sum, and vendor/README.md says another"
done

if grep -nE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(' *.js; then
  fail "text of a testbed must become text nodes only"
fi
