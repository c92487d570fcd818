# Install Debian packages without starting the services they bring. Sourced, not run.

can_apt_install() {
    [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null
}

# The subshell keeps the trap and the environment to itself.
apt_install() (
    set -euo pipefail
    export DEBIAN_FRONTEND=noninteractive
    forbid_service_starts
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
)

# Debian's own switch: exit code 101 of policy-rc.d means "do not start". One that exists is the machine's owner's.
forbid_service_starts() {
    local policy=/usr/sbin/policy-rc.d
    if [[ -e $policy ]]; then
        return
    fi
    trap "rm -f $policy" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}
