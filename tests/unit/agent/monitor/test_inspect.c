/* SPDX-License-Identifier: Apache-2.0 */
/* test_inspect.c - what NCCL's RAS service says, asked at each address that the name of its host has */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/monitor/inspect.h"

static char question[200];

/* Reads the request up to its third line and answers it. */
static void *serve(void *arg)
{
    const int fd = accept(*(const int *)arg, NULL, NULL);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < sizeof(question) && !strstr(question, "STATUS\n"); n += (size_t)got) {
        got = read(fd, question + n, sizeof(question) - 1 - n);
        question[n + (got > 0 ? (size_t)got : 0)] = '\0';
    }
    if (write(fd, "rank 3 is missing\n", 18) != 18)
        question[0] = '\0';
    close(fd);
    return NULL;
}

/* A listener on the loopback. */
static int listener(struct sockaddr_in *a)
{
    socklen_t size = sizeof(*a);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)a, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)a, &size), 0);
    return fd;
}

/* The addresses of the host, whatever this machine's resolver knows; port 0: none. */
static struct sockaddr_in refuses, answers;

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    static struct addrinfo list[2];
    assert_string_equal(host, "localhost");
    assert_string_equal(service, "4711");
    for (int i = 0; i < 2; i++)
        list[i] = (struct addrinfo){.ai_family = AF_INET, .ai_socktype = hints->ai_socktype,
                                    .ai_addrlen = sizeof(refuses),
                                    .ai_addr = (struct sockaddr *)(i ? &answers : &refuses)};
    list[0].ai_next = answers.sin_port ? &list[1] : NULL;
    *out = list;
    return refuses.sin_port ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

/* As where "localhost" is ::1 and 127.0.0.1, and the service listens at the second one only. */
static void each_address_is_tried(void **state)
{
    (void)state;
    char *said = NULL;
    size_t size = 0;
    pthread_t thread;
    FILE *out = open_memstream(&said, &size);
    close(listener(&refuses));
    int fd = listener(&answers);
    assert_int_equal(pthread_create(&thread, NULL, serve, &fd), 0);
    const int rc = inspect_ras(out, "localhost:4711");
    shutdown(fd, SHUT_RDWR); /* ends a wait for a connection that never came */
    pthread_join(thread, NULL);
    close(fd);
    fclose(out);
    assert_int_equal(rc, 0);
    assert_string_equal(said, "\nNCCL RAS status:\nrank 3 is missing\n");
    assert_string_equal(question, "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n");
    free(said);
}

static void nobody_listens(void **state)
{
    (void)state;
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    answers.sin_port = 0;
    assert_int_equal(inspect_ras(out, "localhost:4711"), -1);
    assert_int_equal(setenv("NCCL_RAS_ADDR", "localhost:4711", 1), 0);
    refuses.sin_port = 0; /* the name is not known */
    assert_int_equal(inspect_ras(out, NULL), -1);
    unsetenv("NCCL_RAS_ADDR");
    assert_int_equal(inspect_ras(out, "localhost"), -1);
    fclose(out);
    assert_string_equal(said, "");
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_address_is_tried), cmocka_unit_test(nobody_listens)};
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
