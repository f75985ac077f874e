#!/bin/bash
# Make .venv, with Penstock in it and all that its tests need, and find a Java that runs Spark.
#
# Needs only what a bare Debian has, plus python3. Installs the Debian packages that are missing where it may (as root,
# or with a sudo that asks nothing); elsewhere it stops and prints the one command to run.
#
# Costs nothing when nothing changed: .venv/setup.stamp holds what .venv was made from and is written last, so that an
# interrupted setup leaves no stamp and the next one starts afresh.
#
#   PYTHON=/path/to/python3.12   the Python to use, instead of the first that serves
#   JAVA_HOME=/path/to/jdk       the Java to try first
#
# The first line of .venv/java-home is then the folder of the chosen Java, for the Makefile to export as JAVA_HOME.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
stamp=$venv/setup.stamp
java_record=$venv/java-home
oldest_python=3.11
oldest_java=17
unset PYTHONHOME PYTHONPATH
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

# --- what is there already -------------------------------------------------------------------------------------------

# What .venv is made from: the text of the files that decide its contents, and the place it must not be moved from.
wanted_stamp() {
    printf '%s\n' "$root"
    cd "$root" && sha256sum pyproject.toml constraints.txt scripts/setup.sh
}

venv_runs() {
    [[ -f $stamp && -x $venv/bin/penstock ]] && "$venv/bin/python" -I -S -c '' 2>/dev/null
}

venv_is_current() {
    [[ -f $stamp && $(<"$stamp") == "$(wanted_stamp)" ]] && venv_runs
}

# The record has two lines: the home that was found, and the JAVA_HOME that was asked for (or nothing).
java_is_current() {
    local found='' asked=''
    [[ -f $java_record ]] && { read -r found && read -r asked; } <"$java_record" || return 1
    [[ -x $found/bin/java && $asked == "${JAVA_HOME:-}" ]]
}

# --- words -----------------------------------------------------------------------------------------------------------

say() { printf '  %-8s %s\n' "$1" "$2"; }

stop() {
    printf '\nsetup stopped: %s\n' "$1" >&2
    exit 1
}

# step LABEL TEXT COMMAND...: run the command quietly; if it fails, show the end of what it said, and stop.
step() {
    local label=$1 text=$2 started=$SECONDS
    shift 2
    printf '  %-8s %s ... ' "$label" "$text"
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'done (%d s)\n' $((SECONDS - started))
    else
        printf 'failed\n\n' >&2
        tail -n 25 "$log" | sed 's/^/    /' >&2
        stop "this command failed; its last lines are above: $*"
    fi
}

# --- Python and Java -------------------------------------------------------------------------------------------------

# Set python to the first Python that is new enough and can make a virtual environment. If one is only too bare for
# that, set python to it and venv_package to the Debian package that it lacks.
find_python() {
    local candidate found seen=''
    python='' venv_package=''
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        found=$(command -v "$candidate") || continue
        seen+="; $found is $("$found" -c 'import platform as p; print(p.python_version())' 2>/dev/null || echo broken)"
        "$found" -c "import sys; sys.exit(sys.version_info < (${oldest_python/./, }))" 2>/dev/null || continue
        if "$found" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$found venv_package=''
            return
        elif [[ -z $python ]]; then
            python=$found venv_package=$(basename "$found")-venv
        fi
    done
    [[ -n $python ]] || stop "Penstock needs Python $oldest_python or later${seen:-; no ${PYTHON:-python3} was found}.
Install one, then name it:  make setup PYTHON=/path/to/python$oldest_python"
}

# Set java_home and java_found (its version) from a java command, or fail if it cannot start Spark. Spark loads the
# vector module, which some builds leave out. The command may be a link or a shim, so Java itself is asked for its home.
try_java() {
    local said version home
    said=$("$1" --add-modules=jdk.incubator.vector -XshowSettings:properties -version 2>&1) || return 1
    version=$(sed -n 's/^ *java\.version = //p' <<<"$said")
    home=$(sed -n 's/^ *java\.home = //p' <<<"$said")
    [[ $version =~ ^[0-9]+ && ${BASH_REMATCH[0]} -ge $oldest_java && -x $home/bin/java ]] || return 1
    java_home=$home java_found=$version
}

# Take the first Java that serves: JAVA_HOME, then the one on PATH, then those that Debian has installed.
find_java() {
    local candidate
    java_home='' java_found=''
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        [[ -x $candidate ]] || continue
        ! try_java "$candidate" || return 0
    done
}

# --- Debian packages -------------------------------------------------------------------------------------------------

# Debian's own default serves wherever openjdk-17 is not to be had: every release with Python 3.11 has 17 or later.
java_package() {
    local policy
    policy=$(LC_ALL=C apt-cache policy openjdk-17-jre-headless 2>/dev/null || true)
    if [[ $policy == *'Candidate: '[0-9]* ]]; then
        echo openjdk-17-jre-headless
    else
        echo default-jre-headless
    fi
}

missing_packages() {
    [[ -z $venv_package ]] || echo "$venv_package"
    [[ -n $java_home ]] || java_package
}

install_missing() {
    local as_root=() packages
    [[ -n $venv_package || -z $java_home ]] || return 0
    command -v apt-get >/dev/null || ask_without_apt
    if ((EUID != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || ask_for_packages
    fi
    step debian "reading the list of packages" "${as_root[@]}" apt-get update
    mapfile -t packages < <(missing_packages)
    step debian "installing ${packages[*]}" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${packages[@]}"
    hash -r
    find_python
    find_java
    [[ -z $venv_package ]] || stop "$python still has no module ensurepip; name another with PYTHON="
    [[ -n $java_home ]] || stop "no Java $oldest_java was found after installing it; set JAVA_HOME to its folder"
}

ask_for_packages() {
    local command packages
    mapfile -t packages < <(missing_packages)
    command="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    if command -v sudo >/dev/null; then
        command="sudo sh -c '$command'"
    else
        command="su -c '$command'"
    fi
    stop "some Debian packages are missing, and only root may install them.
Run this one command, then run make again:

    $command
"
}

ask_without_apt() {
    local needed=''
    [[ -z $venv_package ]] || needed+="
    for $python, its modules venv and ensurepip"
    [[ -n $java_home ]] || needed+="
    Java $oldest_java or later with the module jdk.incubator.vector, and JAVA_HOME set to its folder"
    stop "this machine has no apt-get. Please install by hand, then run make again:
$needed
"
}

# --- .venv -----------------------------------------------------------------------------------------------------------

# pip and the builders come first and pinned, so that what they build (PySpark has no wheel) is built by pinned tools.
fill_venv() {
    local pip=("$venv/bin/python" -m pip install --quiet --constraint "$root/constraints.txt")
    cd "$root"
    step venv "installing the installer" "${pip[@]}" pip setuptools wheel hatchling editables
    step venv "installing pinned packages (the first time takes a minute or two)" \
        "${pip[@]}" --no-build-isolation --editable ".[spark,dev]"
}

# A .venv whose stamp is of other files is brought up to date; one that is broken, moved or half made is made anew.
make_venv() {
    local stamped_root=''
    ! venv_runs || read -r stamped_root <"$stamp"
    if [[ $stamped_root != "$root" ]]; then
        step venv "making .venv with $("$python" --version)" "$python" -m venv --clear "$venv"
    fi
    rm -f "$stamp"
    fill_venv
    wanted_stamp >"$stamp.new"
    mv "$stamp.new" "$stamp"
}

main() {
    ! venv_is_current || ! java_is_current || return 0

    # One setup at a time in one folder; whoever waited finds the work done.
    exec 9<"$root"
    flock -n 9 || { say wait "another setup is at work in this folder" && flock 9; }
    ! venv_is_current || ! java_is_current || return 0

    printf 'Setting up Penstock in %s\n' "$venv"
    log=$(mktemp) && trap 'rm -f "$log"' EXIT
    find_python
    find_java
    install_missing
    say python "$("$python" --version) at $python"
    say java "Java $java_found at $java_home"
    venv_is_current || make_venv
    printf '%s\n%s\n' "$java_home" "${JAVA_HOME:-}" >"$java_record"
    say ready "source .venv/bin/activate, or run .venv/bin/penstock"
}

main
