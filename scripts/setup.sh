# What ./dev needs before it can work: packages, a venv with the Python tools, browser-test modules, interpreters.
# shellcheck shell=bash

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "this needs root: run it as root or install sudo" >&2
        return 1
    fi
}

# need_packages NAME...: installs the Debian packages that are not there yet.
need_packages() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        check_tools
        return
    fi
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            die "as root, run: apt-get install ${missing[*]}   (or install sudo, and ./dev does it)"
        sudo -v || die "sudo is needed to install: ${missing[*]}"
    fi
    step "reading the package lists" as_root apt-get update || true # another repository's trouble is not ours
    step "installing ${#missing[@]} packages: ${missing[*]}" install_packages "${missing[@]}" ||
        die "the packages could not be installed: ${missing[*]}"
}

missing_packages() {
    local have name
    have=$(dpkg-query -W -f '${Status} ${Package}\n' "$@" 2>/dev/null | awk '$1 " " $2 " " $3 == "install ok installed" { print $4 }') || true
    for name in "$@"; do
        grep -qxF -- "$name" <<<"$have" || echo "$name"
    done
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

# A system without apt: go on if the build can work, else say in one sentence what is missing.
check_tools() {
    local missing=() tool library
    for tool in cc meson ninja pkg-config protoc-c python3; do
        command -v $tool >/dev/null || missing+=("$tool")
    done
    if command -v pkg-config >/dev/null; then
        for library in gnutls jansson libcap-ng libcurl libelf libmicrohttpd libprotobuf-c libseccomp libzstd ncursesw sqlite3 zlib \
            cmocka; do
            pkg-config --exists $library || missing+=("$library-headers")
        done
    fi
    [ "${#missing[@]}" -eq 0 ] ||
        die "this system has no apt-get, so please install by its own means:$(printf ' %s' "${missing[@]}")"
}

# A Python that runs the tools; the system's own before what a version manager puts on PATH.
any_python() {
    local python
    for python in .venv/bin/python /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    die "Python 3.9 or later is needed: please install it"
}

venv_python() {
    local python
    for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    die "a Python 3.9 or later with the venv module is needed: please install it"
}

fill_venv() {
    local python
    python=$(venv_python) || return
    "$python" -m venv --clear .venv && .venv/bin/python -m pip install --disable-pip-version-check -r tests/requirements.txt &&
        hash_of tests/requirements.txt >.venv/stamp
}

# Of files, or of what is piped in.
hash_of() { cat "$@" | sha256sum; }

need_venv() {
    [ "$(cat .venv/stamp 2>/dev/null)" != "$(hash_of tests/requirements.txt)" ] || ! .venv/bin/python -c '' 2>/dev/null || return 0
    step "installing the Python tools into .venv" fill_venv || die "the Python tools could not be installed"
}

# Modules of the browser tests; Node itself came with the Python tools.
need_node() {
    [ -f tests/package.json ] || return 0
    [ "$(cat tests/node_modules/stamp 2>/dev/null)" != "$(hash_of tests/package.json)" ] || return 0
    step "installing the modules of the browser tests" fill_node ||
        warn "npm could not install the modules of the browser tests: those fail"
}

fill_node() {
    .venv/bin/npm install --prefix tests --no-audit --no-fund --no-save && hash_of tests/package.json >tests/node_modules/stamp
}

page_sources() { find web/src web/index.html web/package.json web/package-lock.json web/tsconfig.json web/vite.config.ts -type f | LC_ALL=C sort; }

# shellcheck disable=SC2046 # no file there has a space in its name
page_stamp() { hash_of $(page_sources); }

# Not `npm ci`: that refuses a lock file that leaves out packages for other machines than this one.
fill_page_modules() {
    PATH=$PWD/.venv/bin:$PATH npm install --prefix web --no-audit --no-fund --no-save &&
        hash_of web/package-lock.json >web/node_modules/stamp
}

build_page() { (cd web && PATH=$OLDPWD/.venv/bin:$PATH && node node_modules/vite/bin/vite.js build); }

# The page of scry serve, web/dist, made with Node, which comes with the Python tools. scry itself builds without it.
need_page() {
    [ ! -f web/dist/index.html ] || [ ! -d web/node_modules/vite ] ||
        [ "$(cat web/dist.stamp 2>/dev/null)" != "$(page_stamp)" ] || return 0
    [ -x .venv/bin/npm ] || (need_venv) || { warn "no Node: scry serve comes without its page" && return 0; }
    [ "$(cat web/node_modules/stamp 2>/dev/null)" = "$(hash_of web/package-lock.json)" ] ||
        step "installing the modules of the page" fill_page_modules ||
        { warn "npm could not install the modules of the page: scry serve comes without it" && return 0; }
    if step "building the page" build_page; then
        page_stamp >web/dist.stamp
    else
        warn "the page could not be built: scry serve comes without it"
    fi
}

# A real Ray for tests/ray, in a venv of its own in the cache folder. It has wheels for some interpreters only: newest first.
ray_folder() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/scry/ray"; }

fill_ray() {
    local folder=$1 python
    for python in python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3 python3; do
        "$python" -c 'import ensurepip, venv' 2>/dev/null || continue
        echo "trying $python"
        "$python" -m venv --clear "$folder" &&
            "$folder/bin/python" -m pip install --disable-pip-version-check --only-binary :all: -r tests/ray/requirements.txt &&
            hash_of tests/ray/requirements.txt >"$folder/stamp" && return 0
    done
    rm -rf "$folder"
    return 1
}

need_ray() {
    local folder
    folder=$(ray_folder)
    [ "$(cat "$folder/stamp" 2>/dev/null)" != "$(hash_of tests/ray/requirements.txt)" ] || ! "$folder/bin/python" -c '' 2>/dev/null ||
        return 0
    mkdir -p "${folder%/*}"
    step "installing Ray into $folder (a minute or two, once)" fill_ray "$folder" ||
        warn "no Ray wheel for any interpreter here: the tests on a real Ray cluster are skipped"
}

# Newer interpreters than the system has; a failure is loud but not the end, and the tests say what is missing.
need_pythons() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/scry/pythons
    [ ! -e "$cache/debian-sid/usr/local/bin/.complete" ] || return 0
    if ! grep -qx 'ID=debian' /etc/os-release 2>/dev/null || ! command -v debootstrap >/dev/null; then
        if [ ! -x /usr/sbin/debootstrap ]; then
            note "newer interpreters are added only on Debian; the tests use those found here"
            return 0
        fi
    fi
    step "fetching newer interpreters from Debian sid into $cache (a few minutes, once)" \
        as_root "$PWD/scripts/debian-tree" sid "$cache/debian-sid" ||
        warn "no newer interpreters: the tests run without those that ./dev pythons lists as missing"
}
