"""Who runs, who has the GIL, and what the others wait for."""

import platform

import harness
import pytest

pytestmark = pytest.mark.one_of_each

# Numbers of system calls that a wait may end in, on x86-64.
READ, POLL, SELECT, ACCEPT, RECVFROM, FUTEX, CLOCK_NANOSLEEP = 0, 7, 23, 43, 45, 202, 230
EPOLL_WAIT, PSELECT6, PPOLL, EPOLL_PWAIT, ACCEPT4 = 232, 270, 271, 281, 288

# label in states.py -> (system calls it may be blocked in, how the reason may begin, what it must contain)
WAITS = {
    "main": ((READ,), ("read pipe",), ""),
    "lock": ((FUTEX,), ("futex",), ""),
    "read_pipe": ((READ,), ("read pipe",), ""),
    "recv_tcp": ((RECVFROM,), ("recvfrom tcp",), "peer"),
    "recv_unix": ((RECVFROM,), ("recvfrom unix",), ""),
    "recv_udp": ((RECVFROM,), ("recvfrom udp",), ""),
    "accept": ((ACCEPT, ACCEPT4), ("accept tcp", "accept4 tcp"), "listener"),
    "sleep": ((SELECT, PSELECT6, CLOCK_NANOSLEEP), ("select", "pselect6", "clock_nanosleep"), ""),
    "select_select": ((SELECT, PSELECT6), ("select", "pselect6"), ""),
    "select_poll": ((POLL, PPOLL), ("poll", "ppoll"), ""),
    "select_epoll": ((EPOLL_WAIT, EPOLL_PWAIT), ("epoll_wait", "epoll_pwait"), ""),
}

on_x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="system call numbers of x86-64"
)


def settle(target):
    for label, (numbers, _, _) in WAITS.items():
        harness.until_blocked_in(target.pid, target.thread(label)["native_id"], numbers)


@on_x86_64
def test_waiting_threads_are_idle_and_say_why(python):
    with harness.run_target(python, "states.py") as target:
        settle(target)
        threads = harness.dump(target.pid)
        wrong = []
        for label, (_, beginnings, contained) in WAITS.items():
            seen = harness.dumped_thread(threads, target.thread(label)["ident"])
            reason = seen["wait"] or ""
            expected = target.report[contained] if contained else ""
            if (
                seen["active"]
                or seen["owns_gil"]
                or not reason.startswith(beginnings)
                or expected not in reason
            ):
                wrong.append(
                    f"{label}: active={seen['active']} gil={seen['owns_gil']} wait={reason!r} {expected}"
                )
        assert not wrong, "\n".join(wrong)


@on_x86_64
def test_sleep_waits_in_the_call_its_version_uses(python):
    with harness.run_target(python, "states.py") as target:
        settle(target)
        seen = harness.dumped_thread(harness.dump(target.pid), target.thread("sleep")["ident"])
        wait = seen["wait"].split()[0]
        assert (
            wait == "clock_nanosleep" if python.minor >= (3, 11) else wait in ("select", "pselect6")
        )


@on_x86_64
def test_the_text_says_what_an_idle_thread_waits_for(some_python):
    with harness.run_target(some_python, "states.py") as target:
        settle(target)
        text = harness.scry("dump", "-p", target.pid).stdout
        header = next(
            line
            for line in text.splitlines()
            if line.endswith('"recv_tcp"') or '"recv_tcp"' in line
        )
        assert "idle" in header
        assert target.report["peer"] in text


def test_a_computing_thread_is_active_and_has_the_gil(python):
    with harness.run_target(python, "spin.py") as target:
        harness.until_blocked_in(target.pid, target.thread("waits")["native_id"], (READ,))
        harness.until_it_computes(target.pid, target.pid)
        threads = harness.dump(target.pid)
        harness.assert_same_stacks(target, threads)
        main = harness.dumped_thread(threads, target.thread("main")["ident"])
        waits = harness.dumped_thread(threads, target.thread("waits")["ident"])
        assert (main["active"], main["owns_gil"]) == (True, True)
        assert (waits["active"], waits["owns_gil"]) == (False, False)


def test_the_text_marks_the_holder_of_the_gil(python):
    with harness.run_target(python, "spin.py") as target:
        harness.until_it_computes(target.pid, target.pid)
        text = harness.scry("dump", "-p", target.pid).stdout
        assert f'Thread {target.pid} (active+gil): "MainThread"' in text.splitlines()


@pytest.mark.parametrize("flags", [(), ("--nonblocking",)], ids=["default", "nonblocking"])
def test_a_running_stack_is_the_true_one_every_time(python, flags):
    with harness.run_target(python, "spin.py") as target:
        for _ in range(10):
            harness.assert_same_stacks(target, harness.dump(target.pid, *flags))


def test_a_thread_in_c_code_without_the_gil_is_active_without_it(python):
    with harness.run_target(python, "busy_and_native.py") as target:
        harness.until_it_computes(target.pid, target.thread("compares")["native_id"])
        seen = harness.dumped_thread(harness.dump(target.pid), target.thread("compares")["ident"])
        assert (seen["active"], seen["owns_gil"]) == (True, False)


def test_a_stopped_process_can_be_dumped_and_stays_stopped(python):
    with harness.run_target(python, "plain.py") as target:
        target.process.send_signal(19)
        harness.until(lambda: harness.state_letter(target.pid) == "T", "the target is stopped")
        harness.assert_same_stacks(target, harness.dump(target.pid))
        assert harness.state_letter(target.pid) == "T"
        target.process.send_signal(18)
        assert target.finish() == 0


@pytest.mark.parametrize("flags", [(), ("--nonblocking",)], ids=["default", "nonblocking"])
def test_the_target_goes_on_unharmed(python, flags):
    with harness.run_target(python, "states.py") as target:
        for _ in range(5):
            harness.dump(target.pid, *flags)
        for said in target.report["threads"]:
            assert harness.tracer_of(target.pid, said["native_id"]) == 0
            assert harness.state_letter(target.pid, said["native_id"]) in "RS"
        assert target.finish() == 0
