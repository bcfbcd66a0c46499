#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "http/pod.h"

#define UID_TEXT     "0d4d8a4e-5b11-4f67-9a3b-1f1f5d3f2a10"
#define UID_IN_SLICE "0d4d8a4e_5b11_4f67_9a3b_1f1f5d3f2a10"
#define ID           "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"

static void assert_uid(const char *cgroup, const char *expected)
{
    struct pod pod = {0};
    assert_int_equal(pod_parse_cgroup(cgroup, &pod), expected[0] != '\0');
    if (expected[0])
        assert_string_equal(pod.uid, expected);
}

static void the_ways_kubelets_name_their_groups(void **state)
{
    (void)state;
    /* systemd's slices, version 2: guaranteed, burstable */
    assert_uid("0::/kubepods.slice/kubepods-pod" UID_IN_SLICE ".slice/cri-containerd-" ID
               ".scope\n",
               UID_TEXT);
    assert_uid("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_IN_SLICE
               ".slice/crio-" ID ".scope\n",
               UID_TEXT);
    /* cgroupfs, version 1 */
    assert_uid("12:pids:/kubepods/besteffort/pod" UID_TEXT "/" ID "\n1:name=systemd:/\n", UID_TEXT);
    /* kind: a kubelet in a container */
    assert_uid("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_IN_SLICE
               ".slice/cri-containerd-" ID ".scope\n",
               UID_TEXT);
    assert_uid("0::/../../kubepods-besteffort-pod" UID_IN_SLICE ".slice/x.scope", UID_TEXT);
}

static void what_is_no_pod(void **state)
{
    (void)state;
    assert_uid("", "");
    assert_uid("0::/\n", "");
    assert_uid("0::/system.slice/docker-" ID ".scope\n", "");
    assert_uid("0::/machine.slice/libpod-" ID ".scope\n", "");
    assert_uid("0::/kubepods.slice\n", "");
    assert_uid("0::/kubepods/podnothing", "");
    assert_uid("0::/kubepods/pod0d4d8a4e-5b11", "");
    assert_uid("0::/kubepods/pod" UID_TEXT "0\n", "");
    assert_uid("0::/pod" UID_TEXT, ""); /* anybody can name a group so */
}

static void the_container_is_in_the_mounts(void **state)
{
    (void)state;
    struct pod pod = {.uid = UID_TEXT};
    pod_parse_mounts(
        "812 790 8:1 /var/lib/kubelet/pods/" UID_TEXT
        "/containers/ray-worker/0a1b2c3d /dev/termination-log rw - ext4 /dev/sda1 rw\n",
        &pod);
    assert_string_equal(pod.container, "ray-worker");
}

/* In a cgroup namespace the group says nothing. */
static void the_pod_is_in_the_mounts_where_the_group_hides_it(void **state)
{
    (void)state;
    struct pod pod = {0};
    pod_parse_mounts("812 790 8:1 /var/lib/kubelet/pods/" UID_TEXT
                     "/etc-hosts /etc/hosts rw - ext4 x rw\n"
                     "813 790 8:1 /var/lib/kubelet/pods/" UID_TEXT
                     "/containers/work/77 /dev/termination-log rw - ext4 x rw\n",
                     &pod);
    assert_string_equal(pod.uid, UID_TEXT);
    assert_string_equal(pod.container, "work");
}

static void names_that_kubernetes_has_not_are_not_taken(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "/pods/" UID_TEXT "/containers/<b>x</b>/77",
        "/pods/" UID_TEXT "/containers/",
        "/pods/" UID_TEXT "/containers/a\nb/",
        "/pods/" UID_TEXT "/containers/no-end",
        "/pods/00000000-5b11-4f67-9a3b-1f1f5d3f2a10/containers/another/77",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct pod pod = {.uid = UID_TEXT};
        pod_parse_mounts(lines[i], &pod);
        assert_string_equal(pod.container, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ways_kubelets_name_their_groups),
        cmocka_unit_test(what_is_no_pod),
        cmocka_unit_test(the_container_is_in_the_mounts),
        cmocka_unit_test(the_pod_is_in_the_mounts_where_the_group_hides_it),
        cmocka_unit_test(names_that_kubernetes_has_not_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
