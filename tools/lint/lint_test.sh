#!/bin/sh
# -P: not the folder that the script is linked from.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools/lint exec /usr/bin/python3 -P tools/lint/lint_test.py
