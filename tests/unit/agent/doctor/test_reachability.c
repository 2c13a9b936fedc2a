/* SPDX-License-Identifier: Apache-2.0 */
/* test_reachability.c - a node counts as reached only if it answers its random word */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/doctor/reachability.h"
#include "engine/base/err.h"

/* A port at which nobody listens any more. */
static int closed_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    close(fd);
    return ntohs(in.sin_port);
}

static json_t *door_at(const char *host, const char *address, int port, const char *word)
{
    return json_pack("{s:s, s:[s], s:i, s:s}", "host", host, "addresses", address, "port", port, "word", word);
}

static const char *field(const json_t *list, size_t i, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(list, i), key));
    return text ? text : "";
}

static void only_the_word_counts(void **state)
{
    struct err err = {0};
    (void)state;
    json_t *door = reachability_listen(&err);
    assert_non_null(door);
    const int port = (int)json_integer_value(json_object_get(door, "port"));
    const char *word = json_string_value(json_object_get(door, "word"));
    assert_int_equal(strlen(word), 32);
    json_t *doors = json_pack("[o, o, o, o]", door_at("good", "127.0.0.1", port, word),
                              door_at("other", "127.0.0.1", port, "00000000000000000000000000000000"),
                              door_at("closed", "127.0.0.1", closed_port(), word), door_at("odd", "::1", port, word));
    json_t *reached = reachability_at(doors);
    assert_int_equal(json_array_size(reached), 4);
    assert_string_equal(field(reached, 0, "address"), "127.0.0.1");
    assert_string_equal(field(reached, 0, "host"), "good");
    assert_non_null(strstr(field(reached, 1, "error"), "another program answers"));
    assert_non_null(strstr(field(reached, 2, "error"), "Connection refused"));
    assert_non_null(strstr(field(reached, 3, "error"), "the host has no IPv4 address"));
    json_decref(reached);

    /* Closed, nobody answers there; opened again, another word counts. */
    reachability_close();
    reached = reachability_at(doors);
    assert_non_null(strstr(field(reached, 0, "error"), "Connection refused"));
    json_decref(reached);
    json_t *again = reachability_listen(&err);
    assert_string_not_equal(json_string_value(json_object_get(again, "word")), word);
    reachability_close();
    reachability_close();
    json_decref(again);
    json_decref(doors);
    json_decref(door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_the_word_counts)};
    return cmocka_run_group_tests_name("reachability", tests, NULL, NULL);
}
