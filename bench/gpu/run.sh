#!/bin/sh
# run.sh --out FOLDER [options]: unpacks the bundle next to it, finds the GPU's Vulkan driver and runs bench/gpu/run.ts
# (--help lists the options). Needs a shell, tar, and xz or python3. Unpacks into LATHE_GPU_WORK (default: a folder in
# the system's temporary folder) and keeps it, so that a second run starts immediately with a warm driver cache.
set -u

here=$(cd "$(dirname "$0")" && pwd)
export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
work=${LATHE_GPU_WORK:-${TMPDIR:-/tmp}/lathe-gpu}
mkdir -p "$work/home" "$work/cache" "$work/icd" || exit 1

say() { echo "run.sh: $*" >&2; }
unpacked() {
  if command -v xz >/dev/null; then xz -dc "$1"; else
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"
  fi
}

if ! cmp -s "$here/stamp" "$work/stamp"; then
  say "unpacking into $work ..."
  rm -rf "$work/app" "$work/lib"
  unpacked "$here/node.xz" >"$work/node" && chmod +x "$work/node" || exit 1
  for archive in "$here"/*.tar.xz; do unpacked "$archive" | tar -C "$work" -x || exit 1; done
  cp "$here/stamp" "$work/stamp"
fi
node=$work/node
app=$work/app

# Drivers and llama.cpp cache compiled shaders; these folders keep the caches for the next run.
[ -w "${HOME:-/nonexistent}" ] || export HOME="$work/home"
export XDG_CACHE_HOME="$work/cache" MESA_SHADER_CACHE_DIR="$work/cache/mesa" LATHE_DATA_DIR="$work/data"
export __GL_SHADER_DISK_CACHE_PATH="$work/cache"

# Adds libraries that this machine lacks, and the folders where containers put those of NVIDIA's driver.
known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null)
for library in "$work"/lib/*; do
  name=$(basename "$library")
  case $known in
    *"$name"*) rm "$library" ;;
    *) say "the machine has no $name; using the bundle's" ;;
  esac
done
export LD_LIBRARY_PATH="$work/lib:/usr/local/nvidia/lib64:/usr/local/nvidia/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# A driver is used when Dawn finds a GPU through it that is not a software adapter.
finds_gpu() {
  said=$(cd "$app" && VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1 timeout 60 "$node" bench/gpu/facts.ts 2>&1)
  case $said in *'"isFallbackAdapter":false'*) return 0 ;; esac
  say "no GPU through $1: $(printf '%s' "$said" | grep -m 1 -e VK_ERROR -e 'Error: ' -e '"info"' | cut -c 1-300)"
  return 1
}
own_icd() {
  printf '{ "file_format_version": "1.0.1", "ICD": { "library_path": "%s", "api_version": "1.3.0" } }\n' "$1" >"$2"
  echo "$2"
}
if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
  found=
  candidates=$(ls /usr/local/nvidia/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/nvidia*.json \
    /usr/share/vulkan/icd.d/nvidia*.json 2>/dev/null)
  if [ -n "$candidates" ] || [ -e /dev/nvidiactl ]; then
    candidates="$candidates $(own_icd libGLX_nvidia.so.0 "$work/icd/glx.json") \
      $(own_icd libEGL_nvidia.so.0 "$work/icd/egl.json")"
  fi
  for candidate in $candidates; do
    if finds_gpu "$candidate"; then
      found=$candidate
      break
    fi
  done
  if [ -n "$found" ]; then
    export VK_DRIVER_FILES="$found" VK_ICD_FILENAMES="$found"
    say "Vulkan driver: $found"
  else
    say "Vulkan driver: chosen by the loader"
  fi
fi

case " $* " in
  *' --out '* | *' --help '*) ;;
  *) set -- --out "${OUT:-$here/out}" "$@" ;;
esac
exec "$node" "$app/bench/gpu/run.ts" "$@"
