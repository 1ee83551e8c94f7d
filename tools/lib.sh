# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# What the scripts in this directory share.  Source it first; it moves to the root of
# the tree and stops the script at the first error.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Two at least: quickstart and CI are sized for two cores.
jobs=$(nproc 2>/dev/null || echo 2)

say() { printf '== %s\n' "$*" >&2; }

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# packages GROUP...: the names listed for these groups in tools/packages.
packages() {
    local group
    for group in "$@"; do
        awk -v group="$group" '$1 == group {print $2}' tools/packages
    done
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need GROUP...: installs what is missing of these groups.  Asks the network for nothing
# when nothing is missing, so an offline machine that is set up stays usable.
need() {
    local name as_root=()
    local missing=()
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: please provide the counterparts of: $(packages "$@" | xargs)"
        return 0
    fi
    for name in $(packages "$@"); do
        is_installed "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "run as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -q </dev/null >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null >&2
}

# build PRESET [CMAKE_OPTION...]: configures when needed and builds; release lands in build/,
# the others in build/PRESET.
build() {
    local preset=$1
    shift
    say "building $preset"
    cmake --preset "$preset" "$@" >/dev/null
    cmake --build --preset "$preset" -j "$jobs"
}

build_dir() {
    if [ "$1" = release ]; then echo build; else echo "build/$1"; fi
}

# sources: every C file of the tree, one a line.
sources() {
    find rdt nn cluster coordinator node tests tools -name '*.[ch]' -not -path '*/build*/*' | sort
}
