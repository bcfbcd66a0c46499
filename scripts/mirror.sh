# Where this machine's apt gets its packages from; sourced.
# shellcheck shell=bash

own_release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# The first mirror that apt has for this machine's own release; apt reads both forms of its source lists for us.
mirror() {
    # shellcheck disable=SC2016 # apt's variables, not the shell's
    apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$(own_release)" '$1 == release && !seen++ { print $2 }'
}

# debootstrap, and the apt of a tree it made, learn of the proxy through the environment.
use_proxy_of_apt() {
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then export http_proxy=$proxy https_proxy=$proxy; fi
}
