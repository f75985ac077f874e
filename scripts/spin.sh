#!/bin/bash
# Have what the model checker needs: Debian's spin, and a C compiler for the checkers that it writes.
#
# Installs the Debian packages that are missing where it may (as root, or with a sudo that asks nothing); elsewhere it
# stops and prints the one command to run. Costs nothing when nothing is missing. Only tests/protocol/test_spin.py needs
# this, so it is no part of the setup.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

stop() {
    printf '\nspin: %s\n' "$1" >&2
    exit 1
}

# A compiler without the C library's headers is of no use, and Debian has them apart.
can_compile() {
    command -v gcc >/dev/null && echo '#include <stdio.h>' | gcc -E -x c - >/dev/null 2>&1
}

missing_packages() {
    command -v spin >/dev/null || echo spin
    can_compile || printf '%s\n' gcc libc6-dev
}

install_missing() {
    local as_root=() packages install
    mapfile -t packages < <(missing_packages)
    ((${#packages[@]} > 0)) || return 0
    install="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    command -v apt-get >/dev/null || stop "this machine has no apt-get; please install by hand: ${packages[*]}"
    if ((EUID != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || stop "only root may install what is missing. Run this, then try again:

    su -c '$install'
"
    fi
    printf '  debian   installing %s\n' "${packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$install" >&2 </dev/null
    hash -r
    [[ -z $(missing_packages) ]] || stop "still missing after installing: $(missing_packages | xargs)"
}

# One at a time, so that two test runners do not install at once; whoever waited finds the work done.
exec 9<"$root/scripts"
flock 9
install_missing
