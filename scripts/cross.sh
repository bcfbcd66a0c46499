# ./dev cross: the tree must compile for 64-bit ARM, warnings being errors. Nothing is run.
# shellcheck shell=bash

cross() {
    local libraries tree
    # shellcheck disable=SC2154 # the list stands in ./dev
    mapfile -t libraries < <(printf '%s\n' "${packages_build[@]}" | grep -e '-dev$')
    tree=${XDG_CACHE_HOME:-$HOME/.cache}/scry/sysroots/arm64-$(echo "${libraries[@]}" | hash_of | cut -c 1-8)
    if [ ! -d "$tree" ]; then
        step "fetching libraries for aarch64 into $tree (a minute, once)" \
            as_root "$PWD/scripts/arm64-tree" "$tree" "${libraries[@]}" || return
    fi
    mkdir -p out
    cat >out/aarch64-tree.ini <<END
[constants]
tree = '$tree'
END
    build_in build-aarch64 --cross-file out/aarch64-tree.ini --cross-file scripts/aarch64.ini -Dwerror=true || return
    note "build-aarch64/scry: $(file -b build-aarch64/scry 2>/dev/null | cut -d, -f 1-2)"
}
