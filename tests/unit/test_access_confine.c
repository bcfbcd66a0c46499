/* What SCRY_CONFINE lets through: this very process is the one that is asked about. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "access/confine.h"

static bool allowed(const char *rule)
{
    struct error err = {0};
    int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (rule)
        setenv(CONFINE_VARIABLE, rule, 1);
    else
        unsetenv(CONFINE_VARIABLE);
    int r = confine_check(fd, getpid(), &err);
    close(fd);
    assert_true(r == 0 || r == -SCRY_E_PERMISSION);
    return r == 0;
}

static void test_nothing_said_allows_all(void **state)
{
    (void)state;
    assert_true(allowed(NULL));
    assert_true(allowed(""));
}

static void test_users_and_namespaces_both_count(void **state)
{
    (void)state;
    struct stat self, ns;
    char own[64], other[64], both[200];
    assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
    assert_int_equal(stat("/proc/self", &self), 0);
    snprintf(own, sizeof(own), "users=77777,%u,88888", self.st_uid);
    snprintf(other, sizeof(other), "pidns=%llu", (unsigned long long)ns.st_ino + 1);
    assert_true(allowed(own));
    assert_false(allowed("users=77777"));
    assert_false(allowed(other));
    snprintf(both, sizeof(both), "%s pidns=%llu", own, (unsigned long long)ns.st_ino);
    assert_true(allowed(both));
    snprintf(both, sizeof(both), "%s %s", own, other);
    assert_false(allowed(both));
}

static void test_what_is_not_understood_allows_nothing(void **state)
{
    (void)state;
    const char *wrong[] = {"users=",  "users",  "all",      "users=x",
                           "users=,", "pidns=", "users=-1", " "};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(allowed(wrong[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said_allows_all),
        cmocka_unit_test(test_users_and_namespaces_both_count),
        cmocka_unit_test(test_what_is_not_understood_allows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
