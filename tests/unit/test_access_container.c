#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "access/container.h"

#define ID "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"

static void assert_container(const char *cgroup, const char *expected)
{
    char seen[64] = "";
    assert_int_equal(container_parse(cgroup, seen, sizeof(seen)), expected[0] != '\0');
    assert_string_equal(seen, expected);
}

static void the_ways_runtimes_name_their_groups(void **state)
{
    (void)state;
    assert_container("0::/system.slice/docker-" ID ".scope\n", "docker 1a2b3c4d5e6f");
    assert_container("12:pids:/docker/" ID "\n11:cpu:/docker/" ID "\n", "docker 1a2b3c4d5e6f");
    assert_container("0::/machine.slice/libpod-" ID ".scope/container\n", "podman 1a2b3c4d5e6f");
    assert_container(
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice/"
        "cri-containerd-" ID ".scope",
        "containerd 1a2b3c4d5e6f");
    assert_container("4:cpu:/kubepods/besteffort/pod1-2-3/" ID "\n", "kubernetes 1a2b3c4d5e6f");
    assert_container("0::/kubepods.slice/x/crio-" ID ".scope", "cri-o 1a2b3c4d5e6f");
    assert_container("0::/lxc.payload.web/system.slice/app.service\n", "lxc web");
    assert_container("9:memory:/lxc/db1\n", "lxc db1");
    assert_container("0::/machine.slice/machine-sid.scope/payload\n", "machine sid");
}

static void a_container_in_a_container_is_the_inner_one(void **state)
{
    (void)state;
    assert_container("0::/lxc.payload.outer/docker/" ID "\n", "docker 1a2b3c4d5e6f");
}

static void what_is_no_container(void **state)
{
    (void)state;
    assert_container("", "");
    assert_container("0::/\n", "");
    assert_container("0::/user.slice/user-1000.slice/session-2.scope\n", "");
    assert_container("0::/system.slice/docker.service\n", "");
    assert_container("0::/machine.slice/libpod-conmon-" ID ".scope\n", "");
    assert_container("nonsense", "");
    assert_container(":", "");
    assert_container("1:2", "");
    assert_container("0::///", "");
    assert_container("0::/docker/" ID "f\n", "");
}

static void names_are_made_harmless(void **state)
{
    (void)state;
    assert_container("0::/lxc.payload.a\033[1mb\n", "lxc a??1mb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ways_runtimes_name_their_groups),
        cmocka_unit_test(a_container_in_a_container_is_the_inner_one),
        cmocka_unit_test(what_is_no_container),
        cmocka_unit_test(names_are_made_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
