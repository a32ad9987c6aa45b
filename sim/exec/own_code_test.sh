#!/bin/sh
# Code for x86-64-v3 must not be what other code is linked with: of an inline
# function the linker keeps any one copy, and this one does not run everywhere
# (lanes.h). The argument is the library of handlers for x86-64-v3.
set -u
namespace=carillon::sim::x86_64_v3::
symbols=$(nm -C --defined-only "$1") || exit 1
if ! echo "$symbols" | grep -q " T ${namespace}FindHandler("; then
  echo "$1: no ${namespace}FindHandler() in it"
  exit 1
fi
# W: weak, as inline functions are; T: others may call it.
shared=$(echo "$symbols" | grep -E '^[0-9a-f]+ [WTi] ' |
  grep -v " T ${namespace}")
if [ -n "$shared" ]; then
  echo "Code for x86-64-v3 that others can be linked with:"
  echo "$shared"
  exit 1
fi
