#!/bin/bash
# Runs page_logic_test.mjs; and where there is TypeScript, which is no package
# here, looks whether the page's modules have the types that they say.
set -euo pipefail
node=$(command -v node || true)
if [[ -z $node ]] || ! "$node" -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'; then
  echo "there is no Node 18 here: apt-get install nodejs (bazel/test_packages.txt)" >&2
  exit 1
fi
# Node 18 takes a .js for a module only beside a package.json that says so.
cp -rL tools/dashboard/page tools/dashboard/page_logic_test.mjs "$TEST_TMPDIR/"
echo '{"type": "module"}' > "$TEST_TMPDIR/package.json"
cd "$TEST_TMPDIR"
if command -v tsc; then
  tsc --noEmit --strict --allowJs --skipLibCheck --target es2022 --module esnext --moduleResolution bundler \
    --lib es2023,dom,dom.iterable page/*.js
else
  echo "no tsc here: the types that the page's modules say are not looked at"
fi
exec "$node" page_logic_test.mjs
