# Make .venv and install the project into it, only when something changed. Sourced, not run.
#
#   root=...                  the checkout
#   ensure_venv [EXTRA]       for example: ensure_venv, ensure_venv test; sets $python

source "$root/scripts/lib/apt.sh"

ensure_venv() {
    local extra=${1:-} lock
    python=$root/.venv/bin/python
    # One at a time; the lock is on a file that is there anyway, and ends with us.
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

venv_works() {
    "$python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

make_venv() {
    local base
    base=$(find_python) || fail "Mayfly needs Python 3.11 or newer: install it, or name one with PYTHON=/path/to/python3."
    if ! has_venv "$base"; then
        install_venv_module "$base"
    fi
    echo "Making .venv with $("$base" --version)"
    "$base" -m venv --clear "$root/.venv"
}

# Each is run, not just found: a pyenv shim may stand for a version that is not chosen.
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
    has_venv "$1" || fail "$1 has no venv module: on Debian and Ubuntu, apt-get install $package brings it."
}

# What was installed from: the files that decide it, and where (an editable install points to its checkout).
fingerprint() {
    (
        cd "$root"
        pwd -P
        "$python" --version
        cat setup.cfg pyproject.toml constraints.txt
    ) | sha256sum
}

# An install with the test extra holds all that one without needs.
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
    # Without build isolation, so that setuptools too is the pinned one, whatever pip's version is.
    pip_install setuptools
    pip_install --no-build-isolation --editable "$root${extra:+[$extra]}"
    compile "$root/.venv/lib"
    rm -f "$root"/.venv/.installed-*
    fingerprint >"$root/.venv/.installed-$extra"
}

pip_install() {
    env -u PYTHONDONTWRITEBYTECODE "$python" -m pip install --quiet --disable-pip-version-check --compile \
        --constraint "$root/constraints.txt" "$@" ||
        fail "The packages could not be installed: the first run, and each after a change of setup.cfg or constraints.txt, has to download them."
}

# A runner lives for less than a minute: it must not spend its first second on compiling. What cannot be compiled
# is not this step's to report.
compile() {
    env -u PYTHONDONTWRITEBYTECODE "$python" -m compileall -qq -j 0 "$@" || true
}

fail() {
    echo "$*" >&2
    exit 1
}
