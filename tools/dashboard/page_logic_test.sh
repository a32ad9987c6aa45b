#!/bin/bash
# Runs page_logic_test.mjs, where there is Node.
set -euo pipefail
node=$(command -v node || true)
if [[ -z $node ]] || ! "$node" -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'; then
  exec bazel/skip.sh "no Node 18 here"
fi
# Node 18 takes a .js for a module only beside a package.json that says so.
cp -rL tools/dashboard/page tools/dashboard/page_logic_test.mjs "$TEST_TMPDIR/"
echo '{"type": "module"}' > "$TEST_TMPDIR/package.json"
exec "$node" "$TEST_TMPDIR/page_logic_test.mjs"
