#!/bin/sh
# The system's Python, as in tour_test.sh.
exec /usr/bin/python3 integration_tests/tour/imaging_page_test.py
