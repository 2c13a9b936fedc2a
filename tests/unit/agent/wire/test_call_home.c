/* SPDX-License-Identifier: Apache-2.0 */
/* test_call_home.c - an agent that calls its controller: both ends in one loop */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/agent/os/loop_fixture.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/wire/byte_stream.h"
#include "agent/wire/call_home.h"
#include "agent/wire/tls_psk.h"
#include "controller/remote/agent_listener.h"
#include "engine/base/err.h"

enum { PATIENCE_MS = 20000, MANY = 16 * 1024 * 1024 };

/* One end of a connection, and what came to it. */
struct end {
    struct byte_stream *s; /* NULL: none */
    char  *in;
    size_t got;
    int    times, ended; /* how often it was connected; and since then ended */
};

static char dir[64];
static struct end agent_end, controller_end;
static struct call_home *agent;
static struct expected_agent *expected;
static pid_t impostor; /* a process; 0: none */

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct end *e = arg;
    assert_true(e->in && e->got + size <= MANY);
    memcpy(e->in + e->got, bytes, size);
    e->got += size;
}

static void drop(struct end *e)
{
    byte_stream_close(e->s);
    e->s = NULL;
    if (e == &agent_end && agent)
        call_home_again(agent);
}

static void on_ended(void *arg, const char *text)
{
    struct end *e = arg;
    (void)text;
    e->ended++;
    drop(e);
}

static void connected(void *arg, struct byte_stream *stream)
{
    struct end *e = arg;
    byte_stream_close(e->s);
    e->s = stream;
    e->times++;
    e->ended = 0;
    byte_stream_set_hooks(stream, &(struct byte_stream_hooks){
                                      .data = on_data, .ended = on_ended, .arg = e});
}

static void came(void *arg, struct byte_stream *stream, const char *address)
{
    (void)arg;
    assert_string_equal(address, "127.0.0.1");
    connected(&controller_end, stream);
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void expect(const char *name)
{
    struct err err = { 0 };
    if (agent_listener_expect(&expected, &loop, dir, name, came, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static void call(void)
{
    assert_int_equal(call_home_open(&agent, &loop, dir, connected, &agent_end, NULL), 0);
}

static int up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    setenv("JOBCTL_CALL_ADDRESS", "127.0.0.1", 1);
    uv_loop_init(&loop);
    snprintf(dir, sizeof(dir), "%.40s/dial.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    agent_end = controller_end = (struct end){ .s = NULL };
    agent = NULL;
    expected = NULL;
    return 0;
}

static int down(void **state)
{
    (void)state;
    if (impostor > 0) {
        kill(impostor, SIGKILL);
        waitpid(impostor, NULL, 0);
        impostor = 0;
    }
    call_home_close(agent);
    agent_listener_forget(expected);
    byte_stream_close(agent_end.s);
    byte_stream_close(controller_end.s);
    uv_run(&loop, UV_RUN_DEFAULT);
    unlink(path_of("call.json"));
    return rmdir(dir) | uv_loop_close(&loop);
}

static void has_trouble(const char *text)
{
    for (int i = 0; i < PATIENCE_MS / 20 && !call_home_trouble(agent); i++)
        run_until(NULL, 0, 20);
    assert_non_null(call_home_trouble(agent));
    if (!strstr(call_home_trouble(agent), text))
        fail_msg("'%s' is not in '%s'", text, call_home_trouble(agent));
}

/* What is written at one end comes out at the other, all of it, and after that its end. */
static void carry(struct end *from, struct end *to)
{
    char *out = malloc(MANY);
    to->in = malloc(MANY);
    assert_true(out && to->in);
    for (size_t i = 0; i < MANY; i++)
        out[i] = (char)(i * 2654435761U >> 13);
    assert_int_equal(byte_stream_write(from->s, out, MANY), 0);
    assert_true(byte_stream_queued(from->s) > 0);
    byte_stream_finish(from->s, 0);
    from->s = NULL;
    assert_true(run_until(&to->ended, 1, PATIENCE_MS));
    assert_int_equal(to->got, MANY);
    assert_memory_equal(to->in, out, MANY);
    free(out);
    free(to->in);
}

/* --- tests ------------------------------------------------------------------------------------- */

static void what_an_agent_says_arrives_before_its_end(void **state)
{
    (void)state;
    expect("7.1.0");
    call();
    assert_true(run_until(&controller_end.times, 1, PATIENCE_MS));
    assert_null(call_home_trouble(agent));
    assert_true(run_until(&agent_end.times, 1, PATIENCE_MS));
    carry(&agent_end, &controller_end);
}

static void what_a_controller_says_arrives_before_its_end(void **state)
{
    (void)state;
    expect("7.1.0");
    call();
    assert_true(run_until(&controller_end.times, 1, PATIENCE_MS));
    assert_true(run_until(&agent_end.times, 1, PATIENCE_MS));
    carry(&controller_end, &agent_end);
}

static void the_key_is_for_nobody_else_and_goes_with_the_attempt(void **state)
{
    struct stat st;
    (void)state;
    expect("7.1.0");
    assert_int_equal(stat(path_of("call.json"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    agent_listener_forget(expected);
    expected = NULL;
    assert_int_equal(access(path_of("call.json"), F_OK), -1);
}

static void where_others_may_enter_no_key_is_left(void **state)
{
    struct err err = { 0 };
    (void)state;
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(agent_listener_expect(&expected, &loop, dir, "7.1.0", came, NULL, &err), -1);
    assert_non_null(strstr(err.text, "other users may enter"));
    assert_int_equal(access(path_of("call.json"), F_OK), -1);
}

static void read_key(char out[2 * TLS_PSK_KEY + 1])
{
    json_t *said = json_load_file(path_of("call.json"), 0, NULL);
    const char *key = json_string_value(json_object_get(said, "key"));
    assert_non_null(key);
    snprintf(out, 2 * TLS_PSK_KEY + 1, "%s", key);
    json_decref(said);
}

static void a_controller_that_comes_again_draws_another_key(void **state)
{
    char before[2 * TLS_PSK_KEY + 1], after[sizeof(before)];
    (void)state;
    expect("7.1.0");
    read_key(before);
    agent_listener_forget(expected);
    expected = NULL;
    expect("7.1.0");
    read_key(after);
    assert_string_not_equal(before, after);
}

/* Someone else could have put it there. */
static void a_file_that_others_may_read_is_not_believed(void **state)
{
    (void)state;
    expect("7.1.0");
    assert_int_equal(chmod(path_of("call.json"), 0644), 0);
    call();
    has_trouble("accessible to other users");
    assert_int_equal(controller_end.times, 0);
}

/* As if the file were changed by somebody: another key, another name, no door. */
static void rewrite(const char *key, const char *name, int port)
{
    json_t *said = json_load_file(path_of("call.json"), 0, NULL);
    assert_non_null(said);
    if (key)
        json_object_set_new(said, "key", json_string(key));
    if (name)
        json_object_set_new(said, "name", json_string(name));
    if (port)
        json_object_set_new(said, "port", json_integer(port));
    assert_int_equal(json_dump_file(said, path_of("call.json"), JSON_COMPACT), 0);
    json_decref(said);
}

static void who_does_not_know_the_key_is_not_let_in(void **state)
{
    char key[2 * TLS_PSK_KEY + 1];
    (void)state;
    expect("7.1.0");
    assert_int_equal(tls_psk_key_draw(key), 0);
    rewrite(key, NULL, 0);
    call();
    has_trouble("does not know the key of this attempt");
    assert_int_equal(controller_end.times, 0);
}

/* The key of another attempt is none. */
static void who_is_of_another_attempt_is_not_let_in(void **state)
{
    (void)state;
    expect("7.1.0");
    rewrite(NULL, "7.2.0", 0);
    call();
    has_trouble("does not know the key of this attempt");
    assert_int_equal(controller_end.times, 0);
}

/* Somebody at the port of the controller who has no key, but a certificate for all that. */
static int start_impostor(void)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(in);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(door, 8), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&in, &size), 0);
    impostor = fork();
    if (impostor > 0) {
        close(door);
        return ntohs(in.sin_port);
    }
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *draw = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
    X509 *x = X509_new();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    EVP_PKEY_keygen_init(draw);
    EVP_PKEY_keygen(draw, &key);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    if (!X509_sign(x, key, NULL) || SSL_CTX_use_certificate(context, x) != 1 ||
        SSL_CTX_use_PrivateKey(context, key) != 1)
        _exit(1);
    for (;;) {
        SSL *ssl = SSL_new(context);
        int one = accept(door, NULL, NULL);
        SSL_set_fd(ssl, one);
        SSL_accept(ssl);
        SSL_free(ssl);
        close(one);
    }
}

static void a_certificate_is_no_proof(void **state)
{
    (void)state;
    expect("7.1.0");
    rewrite(NULL, NULL, start_impostor());
    call();
    has_trouble("does not know the key of this attempt");
    assert_int_equal(agent_end.times, 0);
    assert_int_equal(waitpid(impostor, NULL, WNOHANG), 0);
}

static void where_nobody_listens_that_is_told(void **state)
{
    (void)state;
    expect("7.1.0");
    rewrite(NULL, NULL, 1);
    call();
    has_trouble("127.0.0.1 port 1: connection refused");
}

static void a_connection_that_was_cut_is_made_again(void **state)
{
    (void)state;
    expect("7.1.0");
    call();
    for (int i = 1; i <= 3; i++) {
        assert_true(run_until(&controller_end.times, i, PATIENCE_MS));
        assert_true(run_until(&agent_end.times, i, PATIENCE_MS));
        drop(&agent_end);           /* as a newer connection would do */
    }
    assert_true(run_until(&controller_end.times, 4, PATIENCE_MS));
}

/* Another controller has another port and another key. */
static void a_controller_that_comes_again_is_found(void **state)
{
    (void)state;
    expect("7.1.0");
    call();
    assert_true(run_until(&controller_end.times, 1, PATIENCE_MS));
    agent_listener_forget(expected);
    drop(&controller_end);
    expected = NULL;
    run_until(NULL, 0, 700);
    assert_int_equal(controller_end.times, 1);
    expect("7.1.0");
    assert_true(run_until(&controller_end.times, 2, PATIENCE_MS));
    assert_null(call_home_trouble(agent));
}

static void addresses_are_those_that_were_named(void **state)
{
    struct err err = { 0 };
    (void)state;
    setenv("JOBCTL_CALL_ADDRESS", "10.1.2.3,lo", 1);
    expect("7.1.0");
    json_t *said = json_load_file(path_of("call.json"), 0, NULL);
    char *text = json_dumps(json_object_get(said, "addresses"), JSON_COMPACT);
    assert_true(strncmp(text, "[\"10.1.2.3\",\"127.0.0.1\"", 23) == 0);
    free(text);
    json_decref(said);
    agent_listener_forget(expected);
    expected = NULL;
    setenv("JOBCTL_CALL_ADDRESS", "nowhere9", 1);
    assert_int_equal(agent_listener_expect(&expected, &loop, dir, "7.1.0", came, NULL, &err), -1);
    assert_non_null(strstr(err.text, "\"nowhere9\" is neither an interface"));
    setenv("JOBCTL_CALL_ADDRESS", "none", 1);
    err = (struct err){ 0 };
    assert_int_equal(agent_listener_expect(&expected, &loop, dir, "7.1.0", came, NULL, &err), -1);
    assert_string_equal(err.text, "JOBCTL_CALL_ADDRESS is not an address");
}

static void addresses_may_be_settled_in_a_file(void **state)
{
    char path[PATH_MAX];
    struct err err = { 0 };
    (void)state;
    unsetenv("JOBCTL_CALL_ADDRESS");
    setenv("XDG_CONFIG_HOME", dir, 1);
    snprintf(path, sizeof(path), "%s/jobctl", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    FILE *f = fopen(path_of("jobctl/config.yaml"), "we");
    assert_non_null(f);
    fputs("call_address: none\n", f);
    fclose(f);
    int rc = agent_listener_expect(&expected, &loop, dir, "7.1.0", came, NULL, &err);
    unlink(path_of("jobctl/config.yaml"));
    rmdir(path);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(rc, -1);
    assert_string_equal(err.text, "call_address in config.yaml is not an address");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        TEST(what_an_agent_says_arrives_before_its_end),
        TEST(what_a_controller_says_arrives_before_its_end),
        TEST(the_key_is_for_nobody_else_and_goes_with_the_attempt),
        TEST(a_controller_that_comes_again_draws_another_key),
        TEST(where_others_may_enter_no_key_is_left),
        TEST(a_file_that_others_may_read_is_not_believed),
        TEST(who_does_not_know_the_key_is_not_let_in),
        TEST(who_is_of_another_attempt_is_not_let_in),
        TEST(a_certificate_is_no_proof),
        TEST(where_nobody_listens_that_is_told),
        TEST(a_connection_that_was_cut_is_made_again),
        TEST(a_controller_that_comes_again_is_found),
        TEST(addresses_are_those_that_were_named),
        TEST(addresses_may_be_settled_in_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
