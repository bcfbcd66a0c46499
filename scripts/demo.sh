# ./dev demo: the main job, on a program of its own.
# shellcheck shell=bash

demo() {
    local python picture=out/flamegraph.svg
    python=$(any_python)
    mkdir -p out
    title "$python examples/long_running_task.py"
    "$python" examples/long_running_task.py &
    demo_pid=$!
    trap 'kill $demo_pid 2>/dev/null; wait $demo_pid 2>/dev/null || true' EXIT
    note "runs as pid $demo_pid"

    title "scry dump -p $demo_pid"
    wait_until_it_runs
    look dump -p $demo_pid || die "scry could not read the program"

    title "scry record -p $demo_pid -d 5 -o $picture"
    look record -p $demo_pid -d 5 -o $picture || die "scry could not record the program"
    title "The flame graph is in $PWD/$picture: open it in a browser."
    kill $demo_pid
    demo_page
}

# The page, over a program with something to see in it. With a terminal it serves until Control-C; without one it is asked
# as the page asks, and ends.
demo_page() {
    local python url='' line run=()
    python=$(any_python)
    ! needs_root || run=(sudo)
    title "scry serve"
    "$python" examples/workload.py &
    demo_pid=$!
    (exec "${run[@]}" build/scry serve --port 0 --data-dir out/demo-data >out/demo-serve) &
    serve_pid=$!
    trap 'kill $demo_pid $serve_pid 2>/dev/null; wait $demo_pid $serve_pid 2>/dev/null || true' EXIT
    for _ in $(seq 100); do
        read -r line <out/demo-serve || true
        url=${line##* }
        [ -z "$url" ] || break
        kill -0 $serve_pid 2>/dev/null || die "scry serve ended by itself"
        sleep 0.1
    done
    note "the workload runs as pid $demo_pid: busy, blocked on a lock, blocked on I/O, with children"
    note "the dashboard: $url"
    if [ -t 1 ]; then
        note "Control-C ends it"
        wait $serve_pid || true
    else
        "$python" scripts/demo_page.py "$url" $demo_pid out/serve-flamegraph.svg || die "the dashboard did not answer"
    fi
}

# A started process is Python only after a moment.
wait_until_it_runs() {
    local try
    for try in $(seq 50); do
        ! look dump -p "$demo_pid" 2>/dev/null | grep -q '^    long_running_task' || return 0
        kill -0 "$demo_pid" 2>/dev/null || die "the program ended by itself"
        sleep 0.1
    done
    note "after $try tries there is still no answer; the error is:"
}

# Where the kernel lets only a parent look at a process, root does it.
needs_root() {
    [ "$(id -u)" != 0 ] && [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" != 0 ]
}

look() {
    if needs_root; then
        as_root build/scry "$@"
    else
        build/scry "$@"
    fi
}
