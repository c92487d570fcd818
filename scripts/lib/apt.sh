# Install Debian packages without starting their services. Sourced, not run.

can_apt_install() {
    [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null
}

# A subshell, so that traps and environment do not affect the caller.
apt_install() (
    set -euo pipefail
    export DEBIAN_FRONTEND=noninteractive
    forbid_service_starts
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
)

# Debian's mechanism: exit code 101 of policy-rc.d means "do not start". An existing file is not replaced.
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
