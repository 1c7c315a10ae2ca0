#!/usr/bin/env bash
# install_packages.sh build|test: installs the Debian packages of tools/packages.txt that are missing (build: only the
# first section). Asks apt for nothing when all are there; uses sudo when not root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=$(awk -v upto="$1" '/^# \[/ { section = substr($2, 2, length($2) - 2) } /^[^#]/ && (section == "build" || upto == "test")' \
  "$here/packages.txt")
missing=()
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing: ${missing[*]}"
sudo=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "not root and no sudo: please install: ${missing[*]}" >&2; exit 1; }
  sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
$sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
