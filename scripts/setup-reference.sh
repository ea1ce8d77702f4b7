#!/bin/sh
# scripts/setup-reference.sh FOLDER: a Debian sid system below FOLDER (about 2.5 GB) with what the fixtures of
# test/fixtures/architectures are made with: Hugging Face transformers and tokenizers, PyTorch, safetensors,
# sentencepiece, and of llama.cpp the gguf package, the converter and llama-quantize. Only to make fixtures again;
# no test, build or start needs it. Needs root and debootstrap on a Debian. The mirror is the one that apt uses here.
# Then: chroot FOLDER python3 ...
set -eu

root=${1:?'name the folder that the system is to lie in, for example /opt/reference'}
suite=sid
packages='python3-transformers python3-tokenizers python3-torch python3-safetensors python3-sentencepiece
  python3-protobuf python3-gguf llama.cpp-tools'

say() { echo "setup-reference: $*" >&2; }
fail() { say "$*"; exit 1; }

[ "$(id -u)" = 0 ] || fail 'needs root, because it makes a chroot'
command -v debootstrap >/dev/null || fail 'needs debootstrap: apt-get install debootstrap'

# Components other than main have other repositories than the release itself, so does security.
mirror=$(
  apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    awk '$2 == "main" && $1 !~ /security/ { print $1; exit }'
)
[ -n "$mirror" ] || fail 'apt knows no Debian repository here; run apt-get update first'

if [ ! -e "$root/etc/debian_version" ]; then
  say "Debian $suite from apt's mirror into $root ..."
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >&2
fi

# Reached as apt is reached here; a mirror may lag behind the date until which sid's lists are valid.
apt-config dump | grep -iE '^Acquire::(http|https)::' >"$root/etc/apt/apt.conf.d/80reference" || true
printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'APT::Install-Recommends "false";' \
  >>"$root/etc/apt/apt.conf.d/80reference"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT

say 'installing packages ...'
chroot "$root" apt-get update >&2
# shellcheck disable=SC2086 # a list
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y $packages >&2
chroot "$root" python3 -c '
import torch, transformers, tokenizers, gguf
print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, torch {torch.__version__}")'
chroot "$root" dpkg-query -W llama.cpp-tools python3-gguf
