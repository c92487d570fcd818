# Create .venv and install the project into it, if anything has changed. Sourced, not run.
#
#   root=...                  the checkout
#   ensure_venv [EXTRA]       for example: ensure_venv, ensure_venv test; sets $python

source "$root/scripts/lib/apt.sh"

ensure_venv() {
    local extra=${1:-} lock
    python=$root/.venv/bin/python
    # One process at a time. The lock is on a file that always exists, and is released at exit.
    exec {lock}<"$root/setup.cfg"
    flock "$lock"
    if ! venv_works; then
        make_venv
    fi
    if ! is_installed "$extra"; then
        install_project "$extra"
    fi
    exec {lock}<&-
    compile "$root"/*/
}

# For --help: print the comment at the top of the script.
help_if_asked() {
    if [[ ${1:-} == -h || ${1:-} == --help ]]; then
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
    fi
}

venv_works() {
    "$python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

make_venv() {
    local base
    base=$(find_python) || fail "Mayfly needs Python 3.11 or newer: install it, or set PYTHON=/path/to/python3."
    if ! has_venv "$base"; then
        install_venv_module "$base"
    fi
    echo "Creating .venv with $("$base" --version)"
    "$base" -m venv --clear "$root/.venv"
}

# Each one is run, not just found: a pyenv shim may exist for a version that is not active.
find_python() {
    local name best= names=(python3.{20..11} python3)
    for name in "${PYTHON:-${names[@]}}"; do
        if ! "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            continue
        fi
        best=${best:-$name}
        if has_venv "$name"; then
            best=$name
            break
        fi
    done
    [[ -n $best ]] && echo "$best"
}

has_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

install_venv_module() {
    local package
    package=python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    if can_apt_install; then
        apt_install "$package" || true
    fi
    has_venv "$1" || fail "$1 has no venv module: on Debian and Ubuntu, run apt-get install $package."
}

# Everything that an installation depends on; also the path, since an editable install refers to its checkout.
fingerprint() {
    (
        cd "$root"
        pwd -P
        "$python" --version
        cat setup.cfg pyproject.toml constraints.txt
    ) | sha256sum
}

# An installation with the test extra has everything that one without it has.
is_installed() {
    local now stamp
    now=$(fingerprint)
    for stamp in "$root/.venv/.installed-$1" "$root/.venv/.installed-test"; do
        if [[ -f $stamp && $(<"$stamp") == "$now" ]]; then
            return 0
        fi
    done
    return 1
}

install_project() {
    local extra=$1
    echo "Installing Mayfly${extra:+ with the extra \"$extra\"} into .venv"
    # Without build isolation, so that the pinned setuptools is used with every version of pip.
    pip_install setuptools
    pip_install --no-build-isolation --editable "$root${extra:+[$extra]}"
    compile "$root/.venv/lib"
    rm -f "$root"/.venv/.installed-*
    fingerprint >"$root/.venv/.installed-$extra"
}

pip_install() {
    env -u PYTHONDONTWRITEBYTECODE "$python" -m pip install --quiet --disable-pip-version-check --compile \
        --constraint "$root/constraints.txt" "$@" ||
        fail "pip failed. The first run, and each run after a change of setup.cfg or constraints.txt, downloads packages: check the network."
}

# Short-lived runners must not compile modules at start. Files that cannot be compiled are not reported here.
compile() {
    env -u PYTHONDONTWRITEBYTECODE "$python" -m compileall -qq -j 0 "$@" || true
}

fail() {
    echo "$*" >&2
    exit 1
}
