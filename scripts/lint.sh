# ./dev lint: every check runs; the exit status says whether one found something.
# shellcheck shell=bash

c_files() { git ls-files --cached --others --exclude-standard 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'examples/*.[ch]'; }
shell_files() { git grep -lIE --untracked '^#!.*\b(ba)?sh\b' -- . ':!*.md' ':!*.py' && echo scripts/*.sh; }

# All of the C files take minutes; those that differ from the main branch usually say enough.
tidy_files() {
    if [ "${1:-}" = --all ]; then
        git ls-files 'src/*.c'
    else
        { git diff --name-only --diff-filter=d main -- 'src/*.c' && git ls-files --others --exclude-standard 'src/*.c'; } 2>/dev/null
    fi
}

tidy() {
    local files
    mapfile -t files < <(tidy_files "$@")
    [ "${#files[@]}" -gt 0 ] || return 0
    printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build --quiet --warnings-as-errors='*'
}

lint() {
    local bad=0 files scripts
    mapfile -t files < <(c_files)
    mapfile -t scripts < <(shell_files | tr ' ' '\n')
    case ${1:-} in
    --fix)
        step "clang-format" clang-format -i "${files[@]}" || bad=1
        step "ruff format" .venv/bin/ruff format . || bad=1
        step "ruff" .venv/bin/ruff check --fix . || bad=1
        return $bad
        ;;
    '' | --all) ;;
    *) die "lint takes --fix or --all, not '$1'" ;;
    esac
    build_in build || bad=1 # clang-tidy reads how each file is compiled
    step "clang-format" clang-format --dry-run --Werror "${files[@]}" || bad=1
    step "clang-tidy" tidy "$@" || bad=1
    step "ruff" .venv/bin/ruff check . || bad=1
    step "ruff format" .venv/bin/ruff format --check . || bad=1
    step "shellcheck" shellcheck -x "${scripts[@]}" || bad=1
    step "layering" .venv/bin/python scripts/layering.py || bad=1
    return $bad
}
