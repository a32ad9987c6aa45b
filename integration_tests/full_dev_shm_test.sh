#!/bin/sh
# A full /dev/shm harms nobody: apertures are memfds. Runs a test program, with
# the arguments that follow it, where /dev/shm has no byte left.
set -eu
for namespace in "--mount" "--map-root-user --mount" none; do
  # shellcheck disable=SC2086
  unshare $namespace mount -t tmpfs none /dev/shm 2> /dev/null && break
done
if [ "$namespace" = none ]; then
  exec bazel/skip.sh "a mount namespace needs root or user namespaces"
fi
# shellcheck disable=SC2086
exec unshare $namespace sh -euc '
  mount -t tmpfs -o size=4k full /dev/shm
  head -c 4096 /dev/zero > /dev/shm/full
  if (echo more > /dev/shm/more) 2> /dev/null; then
    echo "/dev/shm has room left: this would test nothing" >&2
    exit 1
  fi
  exec "$0" "$@"' "$@"
