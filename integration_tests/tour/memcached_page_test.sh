#!/bin/sh
# The system's Python, as in tour_test.sh, and a loopback of its own: the page names a port.
set -eu
user=
unshare -n true 2> /dev/null || user=-r
if ! unshare $user -n true 2> /dev/null; then
  exec bazel/skip.sh "no network namespace here"
fi
# memcaslap resolves no name, not even a number, where no interface but lo has an address.
exec unshare $user -n sh -ec 'ip link set lo up
  ip link add eth0 type veth peer name eth1
  ip addr add 192.0.2.1/24 dev eth0
  ip link set eth0 up
  ip link set eth1 up
  exec /usr/bin/python3 integration_tests/tour/memcached_page_test.py'
