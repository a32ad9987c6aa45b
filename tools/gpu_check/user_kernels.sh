#!/bin/sh
# What a user does first, on the GPU: a testbed of `carillon up`, a kernel of their
# own in each form that nvcc makes, and devices of their own that ring for it.
#   user_kernels.sh IMAGE...
set -eu
bin=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
scratch=$(mktemp -d)
end() {
  code=$?
  "$bin/carillon" down --name "$testbed" >"$scratch/down" 2>&1 || cat "$scratch/down"
  rm -rf "$scratch"
  exit "$code"
}
testbed=user-$$
trap end EXIT INT TERM
printf 'name: %s\ngpu: {backend: cuda}\n' "$testbed" >"$scratch/user.yaml"
"$bin/carillon" up -d -f "$scratch/user.yaml"
CARILLON_TESTBED_DIR=$("$bin/carillon" ps --name "$testbed" --directory)
export CARILLON_TESTBED_DIR

"$bin/sensor"
echo
for image in "$@"; do
  form=${image##*.}
  "$bin/carillon" kernel load --name "$testbed" "$bin/$image" --as "saxpy_$form" \
    --kernel 'saxpy(x: read f32[], y: write f32[], a: f32, n: u32)'
  for path in edge baseline_flag baseline graph stream_wait; do
    "$bin/saxpy_device" "$path" "saxpy_$form"
  done
done
"$bin/carillon" status --name "$testbed"
echo "finding: a sensor, and a user's kernel in $# forms by 5 launch paths, all sums right"
