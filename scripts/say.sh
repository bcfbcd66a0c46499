# How ./dev talks: one line per step, what a step printed goes to out/log and is shown when it fails.
# shellcheck shell=bash

if [ -t 1 ]; then
    bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
else
    bold='' dim='' red='' green='' yellow='' plain=''
fi

title() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '  %s\n' "$*"; }
warn() { printf '%swarning: %s%s\n' "$yellow" "$*" "$plain" >&2; }
die() {
    printf '%s./dev: %s%s\n' "$red" "$*" "$plain" >&2
    exit 1
}

# step TEXT COMMAND...: says TEXT, runs COMMAND into a log, and shows the end of the log if it fails.
step() {
    local text=$1 status=0 started=$SECONDS log
    shift
    mkdir -p out/log
    log=out/log/$(printf '%s' "$text" | tr -cs 'A-Za-z0-9' '-' | cut -c 1-40 | sed 's/^-*//; s/-*$//').log
    if [ -t 1 ]; then printf '  %s ...' "$text"; else printf '  %s\n' "$text"; fi
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ -t 1 ]; then
        local took=$((SECONDS - started)) mark="${green}ok${plain}"
        [ $status = 0 ] || mark="${red}failed${plain}"
        [ $took -lt 2 ] || mark="$mark ${dim}(${took} s)${plain}"
        printf '\r\e[K  %s: %s\n' "$text" "$mark"
    fi
    if [ $status != 0 ]; then
        printf '%s  failed: %s (the whole log: %s)%s\n' "$red" "$text" "$log" "$plain"
        tail -n "${step_tail:-30}" "$log" | sed 's/^/    | /'
    fi
    return $status
}
