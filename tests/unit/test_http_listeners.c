#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/listeners.h"

static const char table[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
                            "retrnsmt   uid  timeout inode\n"
                            "   0: 0100007F:2246 00000000:0000 0A 00000000:00000000 00:00000000 "
                            "00000000  1000        0 27031 1 "
                            "0000000000000000 100 0 0 10 0\n"
                            "   1: 0100007F:2247 0100007F:9C40 01 00000000:00000000 00:00000000 "
                            "00000000     0        0 999 1\n"
                            "   2: 00000000000000000000000001000000:2248 "
                            "00000000000000000000000000000000:0000 0A 00000000:00000000 "
                            "00:00000000 00000000     0        0 4711 1\n";

static void a_port_that_is_listened_on(void **state)
{
    (void)state;
    assert_int_equal(listeners_parse(table, 0x2246), 27031);
    assert_int_equal(listeners_parse(table, 0x2248), 4711);
}

static void others_are_none(void **state)
{
    (void)state;
    assert_int_equal(listeners_parse(table, 0x2247), 0); /* a connection */
    assert_int_equal(listeners_parse(table, 1), 0);
    assert_int_equal(listeners_parse("", 1), 0);
    assert_int_equal(listeners_parse("nonsense\n0: x", 1), 0);
}

static void the_process_that_listens_holds_the_socket(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    uint64_t number = listeners_find(getpid(), ntohs(at.sin_port));
    assert_true(number > 0);
    assert_true(listeners_holds(getpid(), number));
    close(fd);
    assert_false(listeners_holds(getpid(), number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_is_listened_on),
        cmocka_unit_test(others_are_none),
        cmocka_unit_test(the_process_that_listens_holds_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
