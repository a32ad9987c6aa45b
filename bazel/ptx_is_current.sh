#!/bin/bash
# Fails when a PTX file of the repository is not what nvcc makes of its source:
# ptx_is_current.sh FILE GENERATED RELEASE LABEL.
set -u

readonly file=$1 generated=$2 release=$3 label=$4

# nvcc makes names of what has internal linkage from a hash of the file's path, so
# that another checkout would not get the same file.
if grep -Eo '_(INTERNAL|GLOBAL__N)_[0-9a-f_]*[A-Za-z0-9_]*' "$generated" | sort -u | head -5 | grep .; then
  echo "$label: these names depend on the path of the checkout."
  echo "  Keep __shared__ variables out of lambdas and unnamed namespaces."
  exit 1
fi

# Another compiler writes other code, but for the same kernels.
entries() { grep -o '^\.visible \.entry [^(]*' "$1" | sort; }
if [[ $release == 13.0 ]]; then
  diff -u "$file" "$generated" >"$TEST_TMPDIR/diff"
else
  diff -u <(entries "$file") <(entries "$generated") >"$TEST_TMPDIR/diff"
fi || {
  head -50 "$TEST_TMPDIR/diff"
  echo "$file is out of date. With CUDA 13.0:"
  echo "  bazel build $label && install -m 644 bazel-bin/$generated $file"
  exit 1
}
[[ -n $(entries "$file") ]] || { echo "$file has no kernels"; exit 1; }
