"""Which threads there are, what they are called, and by which numbers the kernel and Python know them."""

import harness


def names_of(target, threads, label):
    said = target.thread(label)
    return said["name"], harness.dumped_thread(threads, said["ident"])["thread_name"]


def test_ids_are_those_of_the_kernel(python):
    with harness.run_target(python, "threads.py") as target:
        threads = harness.dump(target.pid)
        assert {thread["pid"] for thread in threads} == {target.pid}
        for said in target.report["threads"]:
            seen = harness.dumped_thread(threads, said["ident"])
            assert seen["os_thread_id"] == said["native_id"], said["label"]


def test_names_are_those_of_threading(python):
    with harness.run_target(python, "threads.py") as target:
        threads = harness.dump(target.pid)
        for said in target.report["threads"]:
            if said["name"] is not None and said["label"] != "renamed":
                seen = harness.dumped_thread(threads, said["ident"])
                assert seen["thread_name"] == said["name"], said["label"]


def test_a_thread_may_change_its_name(python):
    with harness.run_target(python, "threads.py") as target:
        seen = harness.dumped_thread(harness.dump(target.pid), target.thread("renamed")["ident"])
        assert seen["thread_name"] == "renamed later"


def test_a_thread_that_threading_does_not_know_has_no_name(python):
    with harness.run_target(python, "threads.py") as target:
        threads = harness.dump(target.pid)
        for label in ("bare", "bare too"):
            seen = harness.dumped_thread(threads, target.thread(label)["ident"])
            assert seen["thread_name"] is None, label


def test_the_oldest_thread_is_printed_first_and_the_newest_comes_first_in_json(python):
    with harness.run_target(python, "plain.py") as target:
        main, second = target.thread("main"), target.thread("second")
        order = [thread["thread_id"] for thread in harness.dump(target.pid)]
        assert order == [second["ident"], main["ident"]]
        text = harness.scry("dump", "-p", target.pid).stdout
        printed = [line for line in text.splitlines() if line.startswith("Thread ")]
        assert [line.split()[1] for line in printed] == [
            str(main["native_id"]),
            str(second["native_id"]),
        ]
        assert ': "MainThread"' in printed[0]


def test_the_text_names_process_version_and_frames(python):
    with harness.run_target(python, "plain.py") as target:
        text = harness.scry("dump", "--full-filenames", "-p", target.pid).stdout.splitlines()
        assert text[0].startswith(f"Process {target.pid}: ")
        assert text[0].endswith("plain.py")
        assert text[1].startswith("Python v" + ".".join(map(str, target.report["version"])))
        for said in target.report["threads"]:
            expected = ["    " + line for line in harness.show(said["frames"])]
            start = next(
                i for i, line in enumerate(text) if line.startswith(f"Thread {said['native_id']} (")
            )
            assert text[start + 1 : start + 1 + len(expected)] == expected
