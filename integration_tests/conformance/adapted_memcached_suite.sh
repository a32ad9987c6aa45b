#!/bin/sh
# Runs 14 files of memcached's own test suite (Perl, from Debian's source package)
# against a running testbed: those that fit a server without its options. Two of
# them are changed for it; the output shows every change as a diff, and says why:
#
#   ./carillon up -d -f tools/cli/topologies/memcached.yaml
#   integration_tests/conformance/adapted_memcached_suite.sh 127.0.0.1:22122
#
# It flushes the server. Exit codes: 1 a test failed, 2 wrong use or a package is
# missing, 3 the suite could not be had (no network).
set -eu

if [ $# -ne 1 ]; then
  echo "usage: $0 HOST:PORT of a NIC of kind memcached" >&2
  exit 2
fi
daemon=$1
for program in apt-get dpkg-source prove; do
  command -v "$program" > /dev/null || {
    echo "$0: $program is missing: apt-get install dpkg-dev perl" >&2
    exit 2
  }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# An apt of its own, which asks the machine's servers for source packages.
mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$list" ] || continue
  sed -e 's/^deb /deb-src /' -e 's/^Types:.*/Types: deb-src/' "$list" > "apt/parts/$(basename "$list")"
done
set -- -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/apt/parts" \
  -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User=root \
  -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
echo "getting memcached's source package" >&2
if ! { apt-get "$@" update && apt-get "$@" source memcached; } > apt.log 2>&1; then
  cat apt.log >&2
  echo "$0: Debian's source package of memcached could not be had" >&2
  exit 3
fi
cd memcached-*/
cp -r t ../original

# Shows what differs from memcached's own file, after a line that says why.
show_change() {
  echo "CHANGED t/$1: $2"
  diff -u "../original/$1" "t/$1" || true
}

# The library looks for a server program before it learns that it needs none.
printf '#!/bin/sh\nexec /usr/bin/memcached "$@"\n' > memcached-debug
chmod +x memcached-debug
# shellcheck disable=SC2016  # Perl's variables
sed -i 's/PeerPort => \$self->{udpport},/PeerPort => $self->{udpport} || $self->{port},/' t/lib/MemcachedTest.pm
show_change lib/MemcachedTest.pm "it never tells an external server's UDP port, which is its TCP port"

sed -i -e 's/tests => 67/"no_plan"/' -e 's/(::IS_ASCII,::IS_BINARY)/(::IS_ASCII)/' -e 's/"abcd" x 1024/"abcd" x 480/' t/udp.t
show_change udp.t "the binary protocol is not served, and a request larger than a NIC's buffers (2048 bytes) is dropped"

# Left out: what needs the server's options, its clock, its slabs, the binary
# protocol, or the meta commands.
failed=0
for test in bogus-commands cas flags getandtouch getset incrdecr issue_14 issue_152 line-lengths multiversioning noreply quit \
  touch udp; do
  # Each expects a server of its own.
  perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new($ARGV[0]) or die "cannot connect to $ARGV[0]: $!\n";
    print $server "flush_all\r\n";
    <$server> eq "OK\r\n" or die "flush_all failed\n";' "$daemon"
  T_MEMD_USE_DAEMON=$daemon prove --quiet "t/$test.t" || failed=$((failed + 1))
done
echo "$failed of 14 files failed"
exit $((failed > 0))
