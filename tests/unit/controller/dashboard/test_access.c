/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use the page: hosts, origins, tokens that work once, sessions of two secrets. */
#include "controller/dashboard/access.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void only_this_machine_at_this_port(void **state)
{
    (void)state;
    assert_true(access_host_fits("127.0.0.1:9400", 9400));
    assert_true(access_host_fits("localhost:9400", 9400));
    assert_true(access_host_fits("LOCALHOST:9400", 9400));
    assert_true(access_host_fits("[::1]:9400", 9400));
    static const char *const others[] = { "127.0.0.1", "127.0.0.1:940", "127.0.0.1:94000", "127.0.0.1:9400 ",
                                          "localhost", "evil.example:9400", "localhost.evil.example:9400",
                                          "127.0.0.1.evil.example:9400", "127.0.0.2:9400", "0.0.0.0:9400", "::1:9400",
                                          "", " 127.0.0.1:9400" };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(access_host_fits(others[i], 9400));
    assert_false(access_host_fits(NULL, 9400));
}

static void no_other_origin(void **state)
{
    (void)state;
    assert_true(access_origin_fits(NULL, 9400));
    assert_true(access_origin_fits("http://127.0.0.1:9400", 9400));
    assert_false(access_origin_fits("http://127.0.0.1:9401", 9400));
    assert_false(access_origin_fits("https://127.0.0.1:9400", 9400));
    assert_false(access_origin_fits("null", 9400));
    assert_false(access_origin_fits("", 9400));
}

static void secrets_are_equal_or_not(void **state)
{
    (void)state;
    assert_true(access_same("abc", "abc"));
    assert_false(access_same("abc", "abd"));
    assert_false(access_same("abc", "bbc"));
    assert_false(access_same("abc", "abcd"));
    assert_false(access_same("abc", "ab"));
    assert_false(access_same("", ""));
    assert_false(access_same(NULL, NULL));
    assert_false(access_same("a", NULL));
}

static void a_link_works_once_and_for_a_while(void **state)
{
    struct access a = { 0 };
    (void)state;
    assert_int_equal(access_redeem(&a, "", false, 1000), ACCESS_DENIED);
    access_add_link(&a, "one", false, 1000);
    access_add_link(&a, "two", false, 1000);
    assert_int_equal(access_redeem(&a, "one", false, 2000), ACCESS_GRANTED);
    assert_int_equal(access_redeem(&a, "one", false, 2000), ACCESS_DENIED);
    assert_int_equal(access_redeem(&a, "two", false, 1000 + ACCESS_LINK_MS), ACCESS_DENIED);
    assert_int_equal(access_redeem(&a, "two", false, 2000), ACCESS_DENIED);
}

static void the_oldest_link_gives_way(void **state)
{
    struct access a = { 0 };
    char token[8];
    (void)state;
    for (int i = 0; i <= ACCESS_LINKS; i++) {
        snprintf(token, sizeof(token), "t%d", i);
        access_add_link(&a, token, false, 1000);
    }
    assert_int_equal(access_redeem(&a, "t0", false, 1001), ACCESS_DENIED);
    assert_int_equal(access_redeem(&a, "t1", false, 1001), ACCESS_GRANTED);
}

static void wrong_tokens_are_counted(void **state)
{
    struct access a = { 0 };
    const int64_t now = 5000000;
    (void)state;
    access_add_link(&a, "right", false, now);
    for (int i = 0; i < ACCESS_WRONG; i++)
        assert_int_equal(access_redeem(&a, "wrong", false, now), ACCESS_DENIED);
    assert_int_equal(access_redeem(&a, "right", false, now + ACCESS_WINDOW_MS - 1), ACCESS_TOO_OFTEN);
    assert_int_equal(access_redeem(&a, "right", false, now + ACCESS_WINDOW_MS), ACCESS_GRANTED);
    for (int i = 0; i < ACCESS_WRONG; i++)
        access_redeem(&a, "wrong", false, now + ACCESS_WINDOW_MS);
    assert_int_equal(access_redeem(&a, "wrong", false, now), ACCESS_DENIED);   /* the clock was set back */
}

static void the_cookie_of_this_port(void **state)
{
    char out[ACCESS_SECRET], name[200];
    (void)state;
    access_cookie(out, "a=b; jobctl_94=x; jobctl_9400=right; c=d", 9400);
    assert_string_equal(out, "right");
    access_cookie(out, "xjobctl_9400=wrong", 9400);
    assert_string_equal(out, "");
    access_cookie(out, "jobctl_9400=one;jobctl_9400=two", 9400);
    assert_string_equal(out, "");
    access_cookie(out, NULL, 9400);
    assert_string_equal(out, "");
    access_cookie(out, ";; jobctl_9400=", 9400);
    assert_string_equal(out, "");
    snprintf(name, sizeof(name), "jobctl_9400=%0100d", 1);
    access_cookie(out, name, 9400);
    assert_string_equal(out, "");
}

static void a_session_needs_both_secrets(void **state)
{
    struct access a = { 0 };
    (void)state;
    assert_false(access_admits(&a, 9400, "jobctl_9400=", "", false));
    assert_false(access_admits(&a, 9400, NULL, NULL, false));
    access_add_session(&a, "c1", "k1");
    access_add_session(&a, "c2", "k2");
    assert_true(access_admits(&a, 9400, "jobctl_9400=c1", "k1", false));
    assert_true(access_admits(&a, 9400, "jobctl_9400=c2", "k2", false));
    assert_false(access_admits(&a, 9400, "jobctl_9400=c1", "k2", false));
    assert_false(access_admits(&a, 9400, "jobctl_9400=c1", NULL, false));
    assert_false(access_admits(&a, 9400, NULL, "k1", false));
    assert_false(access_admits(&a, 9401, "jobctl_9400=c1", "k1", false));
    for (int i = 0; i < ACCESS_SESSIONS; i++)
        access_add_session(&a, "c3", "k3");
    assert_false(access_admits(&a, 9400, "jobctl_9400=c1", "k1", false));
}

static void proxies_of_colab_alone(void **state)
{
    static const char *const others[] = { ".prod.colab.dev", "prod.colab.dev", "evil-prod.colab.dev",
                                          "x.prod.colab.dev.evil.example", "evil.example/x.prod.colab.dev",
                                          "x y.prod.colab.dev", "x.prod.colab.dev:80", "", "x.googleusercontent.com",
                                          "127.0.0.1:9400" };
    (void)state;
    assert_true(access_proxy_fits("8000-m-s-1a.us-west1-0.prod.colab.dev", "colab"));
    assert_true(access_proxy_fits("x1-496ff2e9c6d22116-8000-colab.googleusercontent.com", "colab"));
    assert_false(access_proxy_fits("8000-m-s-1a.us-west1-0.prod.colab.dev", ""));
    assert_false(access_proxy_fits("8000-m-s-1a.us-west1-0.prod.colab.dev", "http://localhost:8888"));
    assert_false(access_proxy_fits(NULL, "colab"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(access_proxy_fits(others[i], "colab"));
    assert_true(access_proxy_origin_fits("https://x.prod.colab.dev", "colab"));
    assert_false(access_proxy_origin_fits("http://x.prod.colab.dev", "colab"));
    assert_false(access_proxy_origin_fits("https://evil.example", "colab"));
    assert_false(access_proxy_origin_fits(NULL, "colab"));
}

static void sites_that_may_frame(void **state)
{
    static const char *const good[] = { "https://hub.example.org", "https://hub.example.org:8000",
                                        "http://localhost:8888", "http://127.0.0.1", "http://127.0.0.1:65535" };
    static const char *const bad[] = { "", "Colab", "evil.example", "http://evil.example", "https://", "https://*",
                                       "https://.a", "https://-a", "https://a/", "https://a b", "https://a;b",
                                       "https://a:", "https://a:x", "https://a:123456", "https://a\r\nb",
                                       "http://localhost.evil.example", "null" };
    char out[320];
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(access_ancestors(out, sizeof(out), good[i]));
        assert_string_equal(out, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(access_ancestors(out, sizeof(out), bad[i]));
    assert_true(access_ancestors(out, sizeof(out), "colab"));
    assert_non_null(strstr(out, "https://colab.research.google.com"));
    assert_false(access_ancestors(out, 10, "colab"));
}

static void frames_and_tabs_do_not_share(void **state)
{
    struct access a = { 0 };
    (void)state;
    access_add_link(&a, "frame", true, 1000);
    access_add_link(&a, "tab", false, 1000);
    assert_int_equal(access_redeem(&a, "frame", false, 1001), ACCESS_DENIED);
    assert_int_equal(access_redeem(&a, "frame", true, 1001), ACCESS_DENIED);    /* used up */
    assert_int_equal(access_redeem(&a, "tab", true, 1001), ACCESS_DENIED);
    access_add_session(&a, "", "kf");
    access_add_session(&a, "ct", "kt");
    assert_true(access_admits(&a, 9400, NULL, "kf", true));
    assert_true(access_admits(&a, 9400, "jobctl_9400=ct", "kf", true));
    assert_false(access_admits(&a, 9400, NULL, "kf", false));
    assert_false(access_admits(&a, 9400, "jobctl_9400=", "kf", false));
    assert_false(access_admits(&a, 9400, "jobctl_9400=ct", "kt", true));
    assert_false(access_admits(&a, 9400, NULL, "kt", false));
    assert_false(access_admits(&a, 9400, NULL, "", true));
    assert_false(access_admits(&a, 9400, NULL, NULL, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_this_machine_at_this_port),    cmocka_unit_test(no_other_origin),
        cmocka_unit_test(secrets_are_equal_or_not),          cmocka_unit_test(a_link_works_once_and_for_a_while),
        cmocka_unit_test(the_oldest_link_gives_way),         cmocka_unit_test(wrong_tokens_are_counted),
        cmocka_unit_test(the_cookie_of_this_port),           cmocka_unit_test(a_session_needs_both_secrets),
        cmocka_unit_test(proxies_of_colab_alone),            cmocka_unit_test(sites_that_may_frame),
        cmocka_unit_test(frames_and_tabs_do_not_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
