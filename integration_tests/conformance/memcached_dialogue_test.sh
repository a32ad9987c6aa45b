#!/bin/sh
exec /usr/bin/python3 integration_tests/conformance/memcached_dialogue_test.py
