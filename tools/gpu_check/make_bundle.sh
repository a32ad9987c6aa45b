#!/bin/bash
# Makes a directory that runs on a machine with an NVIDIA driver and nothing
# else: programs, all their shared libraries with the C library and its dynamic
# linker, and a script for each program that starts it with these. Older and newer
# C libraries of that machine do not matter then; its driver is found where it is.
#
#   make_bundle.sh --out DIR --toolkit RELEASE [--tar] [--revision R] [--file F]... PROGRAM...
#
# --tar: packs it into DIR.tar.gz, too, for a machine that takes one file.
# --file: copied beside the scripts, not run. Relative paths are those of
# $BUILD_WORKING_DIRECTORY (bazel run). Exit codes: 1 failed or too large,
# 2 usage, 3 no CUDA toolkit.
set -euo pipefail

readonly most=90000000 most_packed=45000000 # bytes

say() { printf 'gpu-bundle: %s\n' "$*" >&2; }
fail() {
  say "$1"
  exit "${2:-1}"
}

out='' toolkit='' revision='' tar='' files=() programs=()
while [ $# -gt 0 ]; do
  case $1 in
    --out=*) out=${1#*=} ;;
    --toolkit=*) toolkit=${1#*=} ;;
    --tar) tar=1 ;;
    --revision=*) revision=${1#*=} ;;
    --file=*) files+=("${1#*=}") ;;
    -*) fail "no option $1" 2 ;;
    *) programs+=("$1") ;;
  esac
  shift
done
[ -n "$out" ] || fail "--out=DIR says where" 2
[ -n "$toolkit" ] ||
  fail "there is no CUDA toolkit here (nvcc 12.5 or newer in \$CUDA_HOME/bin, /usr/local/cuda/bin or PATH), and the bundle is for a GPU" 3
[ ${#programs[@]} -gt 0 ] || fail "no programs" 2
case $out in /*) ;; *) out=${BUILD_WORKING_DIRECTORY:-$PWD}/$out ;; esac
if [ -z "$revision" ]; then
  revision=$(git -C "${BUILD_WORKSPACE_DIRECTORY:-.}" describe --always --dirty --abbrev=40 2>/dev/null) ||
    revision=unknown
fi

if [ -e "$out" ] && [ ! -f "$out/MANIFEST.json" ]; then
  [ -d "$out" ] && [ -z "$(ls -A "$out")" ] || fail "$out is there and no bundle: not touched"
fi
made=$(mktemp -d "$out.XXXXXX") || fail "cannot make $out"
packed=$made.tar.gz
trap 'rm -rf "$made" "$packed"' EXIT
chmod 755 "$made"
mkdir "$made/bin" "$made/programs" "$made/lib"

# "lib.so.1 => /path (0x...)" and "/lib64/ld-linux... (0x...)".
libraries_of() {
  local listed
  listed=$(env -u LD_LIBRARY_PATH ldd "$1") || fail "ldd $1 failed"
  if grep -q 'not found' <<<"$listed"; then
    fail "$1 lacks libraries here: $(grep 'not found' <<<"$listed" | tr -s '\t\n' ' ')"
  fi
  sed -n -e 's/.*=> \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) (0x.*/\1/p' <<<"$listed"
}

# The driver's own are those of the machine that the bundle is for.
is_drivers() { case ${1##*/} in libcuda.so* | libnvidia-* | libnvcuvid*) ;; *) false ;; esac; }

add_library() {
  is_drivers "$1" || [ -e "$made/lib/${1##*/}" ] || install -m 755 "$1" "$made/lib/"
}

for program in "${programs[@]}"; do
  name=${program##*/}
  strip -o "$made/programs/$name" "$program" || fail "cannot strip $program"
  chmod 755 "$made/programs/$name"
  while read -r library; do add_library "$library"; done < <(libraries_of "$program")
  cat >"$made/bin/$name" <<'START'
#!/bin/sh
# Starts the program of this name with the bundle's libraries.
case $0 in */*) bin=${0%/*} ;; *) bin=. ;; esac
bin=$(CDPATH='' cd -- "$bin" && pwd -P) || exit 127
lib=${bin%/bin}/lib
export CARILLON_BIN_DIR="$bin"
exec "$lib/ld-linux-x86-64.so.2" --argv0 "$bin/${0##*/}" \
  --library-path "$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib:/usr/lib/x86_64-linux-gnu:/usr/lib/wsl/lib" \
  "${bin%/bin}/programs/${0##*/}" "$@"
START
  chmod 755 "$made/bin/$name"
done
for file in "${files[@]}"; do install -m 755 "$file" "$made/bin/"; done

# What a driver asks the C library for, and its dynamic linker.
linker=$made/lib/ld-linux-x86-64.so.2
[ -x "$linker" ] || fail "the programs have another dynamic linker than ld-linux-x86-64.so.2"
libc=$(libraries_of "${programs[0]}" | grep '/libc\.so\.6$') || fail "the programs are static"
for name in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6 libresolv.so.2 libutil.so.1 libgcc_s.so.1; do
  add_library "${libc%/*}/$name"
done
# Stripped of what only a debugger reads; the linker's own names stay.
find "$made/lib" -type f ! -name 'ld-linux*' -exec strip --strip-unneeded {} +

cat >"$made/gpu_check" <<'START'
#!/bin/sh
# Everything of Carillon that needs a GPU: gpu_check --help
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
exec "$here/bin/gpu_check" "$@"
START
chmod 755 "$made/gpu_check"

cat >"$made/MANIFEST.json" <<MANIFEST
{
  "name": "carillon-gpu-bundle",
  "revision": "$revision",
  "cuda_toolkit": "$toolkit",
  "made": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "programs": [$(for p in "${programs[@]}"; do printf '"%s", ' "${p##*/}"; done | sed 's/, $//')],
  "libraries": $(find "$made/lib" -type f | wc -l)
}
MANIFEST

cat >"$made/README" <<README
Carillon on a GPU: tests and benches, ready to run. Revision $revision,
compiled by CUDA $toolkit.

Needs Linux on x86-64 and an NVIDIA driver for CUDA ${toolkit%%.*}.0 or newer; nothing else.

  ./gpu_check                  as much as 9 minutes have room for, the launch
                               paths' latency first; a table last. All of its
                               results are in three files, whole after each step:
                               gpu_check_results/all.txt, all.json, results.tar.gz
  ./gpu_check --resume         goes on behind a part that took the machine along
  ./gpu_check --only paths     parts, and steps as latency/edge: ./gpu_check --list
  bin/gpud, bin/carillon, bin/launch_bench   by hand

Exit codes: 0 all passed, 1 something failed, 2 usage, 77 no GPU or no driver,
130 interrupted.

The scripts in bin start what is in programs with the libraries in lib, the C
library among them; of this machine only the driver's libraries are used.
README

size=$(find "$made" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
megabytes=$(awk -v s="$size" 'BEGIN { printf "%.1f", s / 1e6 }')
if [ "$size" -gt "${CARILLON_BUNDLE_BYTES:-$most}" ]; then
  find "$made" -type f -printf '%s %P\n' | sort -rn | head -n 10 >&2
  fail "$megabytes MB: a bundle has at most $((${CARILLON_BUNDLE_BYTES:-$most} / 1000000)) MB; the largest files are above"
fi
if [ -n "$tar" ]; then
  # Whatever it was made as, it unpacks under its own name.
  tar -C "$made" --transform "s|^\.|${out##*/}|" --sort=name --owner=0 --group=0 \
    --numeric-owner -cf - . | gzip -9 >"$packed"
  packed_size=$(wc -c <"$packed")
  packed_megabytes=$(awk -v s="$packed_size" 'BEGIN { printf "%.1f", s / 1e6 }')
  if [ "$packed_size" -gt "${CARILLON_BUNDLE_PACKED_BYTES:-$most_packed}" ]; then
    fail "$packed_megabytes MB packed: a packed bundle has at most $((${CARILLON_BUNDLE_PACKED_BYTES:-$most_packed} / 1000000)) MB"
  fi
fi
rm -rf "$out" "$out.tar.gz"
mv "$made" "$out"
printf '%s: %s MB, revision %s, CUDA %s\n' "$out" "$megabytes" "$revision" "$toolkit"
if [ -n "$tar" ]; then
  mv "$packed" "$out.tar.gz"
  printf '%s: %s MB\n' "$out.tar.gz" "$packed_megabytes"
  printf 'copy that to the GPU machine and run there: tar xzf %q && %q/gpu_check\n' "${out##*/}.tar.gz" "${out##*/}"
else
  printf 'copy it to the GPU machine and run there: %q/gpu_check\n' "${out##*/}"
fi
printf 'it needs an NVIDIA driver for CUDA %s.0 or newer there\n' "${toolkit%%.*}"
