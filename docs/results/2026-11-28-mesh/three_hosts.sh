#!/bin/bash
# three_hosts.sh BIN: brings three hosts of one testbed up on this machine by `carillon up -d --host`, all three
# commands at once, and prints when each was up, in seconds after the first command. BIN has carillon, gpud,
# linkd, fpga and echo_device.
set -eu
export CARILLON_BIN_DIR=$1
home=$(mktemp -d)
cd "$home"
openssl req -quiet -x509 -newkey ed25519 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2> /dev/null ||
  openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2> /dev/null
openssl req -new -newkey ed25519 -nodes -subj /CN=host -keyout host.key -out host.csr 2> /dev/null
echo "subjectAltName=URI:carillon:role:link,DNS:a,DNS:b,DNS:c" > names
openssl x509 -req -in host.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out host.pem 2> /dev/null
echo_device=$1/echo_device
cat > lab.yaml <<Y
name: lab
mesh: {tls: {certificate: host.pem, key: host.key, ca: ca.pem}}
hosts: {a: , b: {address: "127.0.0.1:4811"}, c: }
gpu: {host: b, backend: cpu, workers: 1}
devices:
  - {name: echo0, kind: exec, host: a, command: [$echo_device, --pause, 5, --patience, 100000]}
  - {name: fpga0, kind: fpga, host: b, fps: 5}
  - {name: echo1, kind: exec, host: c, command: [$echo_device, --pause, 5, --patience, 100000]}
Y
begin=$(date +%s.%N)
for host in a b c; do
  (CARILLON_RUNTIME_DIR=$home/$host "$CARILLON_BIN_DIR/carillon" up -d -f lab.yaml --host $host --timeout 60 > $host.log 2>&1 &&
    echo "$host up after $(echo "$(date +%s.%N) - $begin" | bc) s" || { echo "$host failed"; cat $host.log; }) &
done
wait
for host in a c b; do
  CARILLON_RUNTIME_DIR=$home/$host "$CARILLON_BIN_DIR/carillon" down --name lab > down.log 2>&1 || cat down.log
done
rm -rf "$home"
