#!/bin/sh
# lint.sh CHECK: runs a check on the checkout that this test was started in.
# -P: not the folder that the script is linked from.
root=$(dirname "$(readlink -f WORKSPACE)")
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools/lint exec /usr/bin/python3 -P "$1" "$root"
