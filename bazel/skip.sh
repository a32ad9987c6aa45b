#!/bin/sh
# A script's test says by this that it is skipped, and why: skip.sh REASON. Bazel
# would take its exit code for a pass (tools/cli/testing/allowed_skips.txt).
set -eu
echo "SKIPPED: $1"
cat > "${XML_OUTPUT_FILE:?is set by Bazel}" << XML
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="$TEST_TARGET" tests="1" failures="0" errors="0">
    <testcase name="$TEST_TARGET" status="run"><skipped message="$1"/></testcase>
  </testsuite>
</testsuites>
XML
