# ./dev test: every part runs even when another failed; scripts/tally.py closes with the sum.
# shellcheck shell=bash

results=out/test

# part NAME KIND COMMAND...: notes how COMMAND ended. KIND "one" counts it as a test; "many" has its own count elsewhere.
part() {
    local name=$1 kind=$2 state=ok
    shift 2
    "$@" || state=failed
    [ "$state$kind" != okmany ] || state=counted
    printf '%s\t%s\t%s\n' "$name" "$state" "see above" >>$results/parts.tsv
    [ $state != failed ]
}

# strict_build FOLDER COMPILER OPTION...: warnings are errors.
strict_build() {
    local folder=$1 compiler=$2
    shift 2
    [ -f "$folder/build.ninja" ] ||
        CC=$compiler step "configuring $folder" meson setup "$folder" -Dwerror=true "$@" || return
    grep -q '^werror = true' "$folder/meson-private/cmd_line.txt" ||
        step "configuring $folder" meson configure "$folder" -Dwerror=true || return
    step "compiling $folder" ninja -C "$folder"
}

unit_tests() {
    local folder=$1 status=0
    rm -f "$folder/meson-logs/testlog.json"
    step "unit tests of $folder" meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier 4 || status=$?
    [ ! -f "$folder/meson-logs/testlog.json" ] || cp "$folder/meson-logs/testlog.json" "$results/$folder.json"
    [ $status = 0 ] || [ -s "$results/$folder.json" ]
}

# Tests of real processes share the machine with each other and with whatever else runs on it. The few that fail get
# one more run, alone; the report names those that pass then.
python_tests_alone() {
    local name=$1
    shift
    title "$name: what failed, once more and alone"
    .venv/bin/pytest -q --last-failed --last-failed-no-failures none --maxfail 10 \
        --junitxml="$results/$name.again.xml" -o junit_family=xunit1 "$@" || true
}

# python_tests NAME WORD...: runs pytest with the words; its tests are counted from the file it writes.
python_tests() {
    local name=$1 status=0
    shift
    title "$name"
    # One worker more than CPUs: most tests record for so long, whatever else goes on.
    .venv/bin/pytest -q -n "$(($(nproc) + 1))" --dist loadgroup --junitxml="$results/$name.xml" -o junit_family=xunit1 "$@" || status=$?
    [ $status != 1 ] || python_tests_alone "$name" "$@"
    # 1: some tests failed, and are counted; anything else means that it could not work.
    [ $status -le 1 ] && [ -s "$results/$name.xml" ]
}

# The tests that meet real processes once more, on the oldest and the newest interpreter, with memory errors made fatal.
python_tests_with_sanitizers() {
    SCRY=$PWD/build-asan/scry python_tests pytest-asan tests/cli tests/live \
        -k "$(.venv/bin/python tests/pythons.py --ends) or cli"
}

# The server: every address, well and badly asked, and what it keeps; leaks are looked for at the end of it and of each job.
server_tests_with_sanitizers() {
    SCRY=$PWD/build-asan/scry python_tests serve-asan tests/serve/test_api.py tests/serve/test_bad_requests.py \
        tests/serve/test_store.py
}

test_everything() {
    local gcc asan
    rm -rf $results
    mkdir -p $results
    : >$results/parts.tsv
    title "build"
    part "gcc build" one strict_build build gcc && gcc=ok || gcc=failed
    part "clang build" one strict_build build-clang clang || true
    # What gcc believes uninitialised under sanitizers is mostly its own instrumentation.
    part "sanitizer build" one strict_build build-asan gcc -Db_sanitize=address,undefined \
        -Dc_args=-Wno-maybe-uninitialized && asan=ok || asan=failed
    title "checks"
    part "layering" one step "layering" .venv/bin/python scripts/layering.py || true
    [ "$gcc" = failed ] || part "unit tests" many unit_tests build || true
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    [ "$asan" = failed ] || part "unit tests with sanitizers" many unit_tests build-asan || true
    [ "$gcc" = failed ] || part "pytest" many python_tests pytest tests || true
    [ "$asan" = failed ] || part "pytest with sanitizers" many python_tests_with_sanitizers || true
    [ "$asan" = failed ] || part "server with sanitizers" many server_tests_with_sanitizers || true
    .venv/bin/python tests/pythons.py
    .venv/bin/python scripts/tally.py $results
}
