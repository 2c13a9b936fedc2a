/* SPDX-License-Identifier: Apache-2.0 */
/* test_notice_payload.c - messages as text, in each format of a webhook, and as a mail */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "controller/notify/notice.h"
#include "controller/notify/notice_payload.h"

static const struct notice_row failed = { .job = 7, .event = "failed", .name = "sana", .restarts = 3, .hangs = 1,
                                          .reason = "<!channel> <at user_id=\"all\"></at> @everyone a & b",
                                          .first_ms = 1000, .last_ms = 2000 };

static const struct {
    enum notice_format format;
    const char        *json;
} payloads[] = {
    { NOTICE_JSON,
      "{\"version\":1,\"id\":\"inst-7-1\",\"event\":\"failed\",\"host\":\"box\","
      "\"title\":\"jobctl: job 7 (sana) failed (restarted 3 times, hung once) on box\","
      "\"text\":\"<!channel> <at user_id=\\\"all\\\"></at> @everyone a & b\\nTo see more: jobctl why 7\","
      "\"at_ms\":2000,\"jobs\":[{\"job\":7,\"name\":\"sana\",\"event\":\"failed\","
      "\"reason\":\"<!channel> <at user_id=\\\"all\\\"></at> @everyone a & b\",\"restarts\":3,\"hangs\":1,"
      "\"first_ms\":1000,\"last_ms\":2000}]}" },
    { NOTICE_SLACK,
      "{\"text\":\"jobctl: job 7 (sana) failed (restarted 3 times, hung once) on box\\n"
      "&lt;!channel&gt; &lt;at user_id=\\\"all\\\"&gt;&lt;/at&gt; @everyone a &amp; b\\nTo see more: jobctl why 7\"}" },
    { NOTICE_DISCORD,
      "{\"content\":\"jobctl: job 7 (sana) failed (restarted 3 times, hung once) on box\\n"
      "<!channel> <at user_id=\\\"all\\\"></at> @everyone a & b\\nTo see more: jobctl why 7\","
      "\"allowed_mentions\":{\"parse\":[]}}" },
    { NOTICE_FEISHU,
      "{\"msg_type\":\"text\",\"content\":{\"text\":\"jobctl: job 7 (sana) failed (restarted 3 times, hung once) on "
      "box\\n(!channel> (at user_id=\\\"all\\\">(/at> @everyone a & b\\nTo see more: jobctl why 7\"}}" },
    { NOTICE_DINGTALK,
      "{\"msgtype\":\"text\",\"text\":{\"content\":\"jobctl: job 7 (sana) failed (restarted 3 times, hung once) on "
      "box\\n<!channel> <at user_id=\\\"all\\\"></at> @everyone a & b\\nTo see more: jobctl why 7\"}}" },
};

static void formats(void **state)
{
    (void)state;
    struct notice_message m;
    notice_message_make(&m, &failed, 1, "inst", "box");
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        json_t *payload = notice_payload(payloads[i].format, &m);
        char *text = json_dumps(payload, JSON_COMPACT);
        assert_string_equal(text, payloads[i].json);
        free(text);
        json_decref(payload);
    }
}

static const struct {
    struct notice_row row;
    const char       *title;
} titles[] = {
    { { .job = 1, .event = "done", .name = "a" }, "jobctl: job 1 (a) succeeded on box" },
    { { .job = 1, .event = "done", .name = "a", .restarts = 1 },
      "jobctl: job 1 (a) succeeded (restarted once) on box" },
    { { .job = 1, .event = "recovering", .name = "a", .restarts = 12 },
      "jobctl: job 1 (a) restarted 12 times on box" },
    { { .job = 1, .event = "hung", .name = "a", .restarts = 1, .hangs = 1 },
      "jobctl: job 1 (a) restarted once, hung once on box" },
    { { .job = 1, .event = "budget", .name = "a", .restarts = 4 },
      "jobctl: job 1 (a) is at a limit of its spec (restarted 4 times) on box" },
};

static void titles_of_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
        struct notice_message m;
        notice_message_make(&m, &titles[i].row, 1, "inst", "box");
        assert_string_equal(m.title, titles[i].title);
    }
}

static void a_bundle(void **state)
{
    (void)state;
    static struct notice_row rows[30];
    struct notice_message m;
    for (int i = 0; i < 30; i++) {
        rows[i] = (struct notice_row){ .job = i + 1, .name = "a" };
        snprintf(rows[i].event, sizeof(rows[i].event), "%s", i < 20 ? "failed" : i < 27 ? "done" : "hung");
        memset(rows[i].reason, 'x', sizeof(rows[i].reason) - 1);
        memcpy(rows[i].reason + 98, "\xe6\xb7\xb1\xe6\xb7\xb1", 6);     /* cut within a character */
    }
    notice_message_make(&m, rows, 30, "inst", "box");
    assert_string_equal(m.title, "jobctl: 30 jobs: 20 failed, 7 succeeded, 3 in trouble on box");
    assert_string_equal(m.event, "several");
    assert_non_null(strstr(m.text, "\njob 20 (a) failed: xxx"));
    assert_null(strstr(m.text, "\njob 21 "));
    assert_non_null(strstr(m.text, "and 10 more\nTo see them: jobctl status -a; to see one: jobctl why JOB"));
    for (int f = 0; f < NOTICE_FORMATS; f++) {
        json_t *payload = notice_payload((enum notice_format)f, &m);
        assert_non_null(payload);
        json_decref(payload);
    }
}

static const struct { const char *url; enum notice_format format; } urls[] = {
    { "https://hooks.slack.com/services/T/B/x", NOTICE_SLACK },
    { "https://discord.com/api/webhooks/1/x", NOTICE_DISCORD },
    { "https://open.feishu.cn/open-apis/bot/v2/hook/x", NOTICE_FEISHU },
    { "https://oapi.dingtalk.com:443/robot/send?access_token=x", NOTICE_DINGTALK },
    { "https://example.org/hooks.slack.com", NOTICE_JSON },
    { "https://hooks.slack.com.example.org/", NOTICE_JSON },
};

static void formats_by_host(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
        assert_int_equal(notice_payload_format_of_url(urls[i].url), urls[i].format);
    assert_int_equal(notice_payload_format_of("feishu"), NOTICE_FEISHU);
    assert_int_equal(notice_payload_format_of("teams"), NOTICE_FORMATS);
}

static const struct { enum notice_format format; const char *answer, *refusal; } answers[] = {
    { NOTICE_FEISHU, "{\"code\":0,\"msg\":\"success\"}", NULL },
    { NOTICE_FEISHU, "{\"code\":19024,\"msg\":\"Key Words Not Found\"}", "Key Words Not Found" },
    { NOTICE_DINGTALK, "{\"errcode\":0,\"errmsg\":\"ok\"}", NULL },
    { NOTICE_DINGTALK, "{\"errcode\":310000}", "without a reason" },
    { NOTICE_SLACK, "ok", NULL },
    { NOTICE_JSON, "{\"code\":1}", NULL },
    { NOTICE_FEISHU, "<html>", NULL },
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        char *said = notice_payload_refusal(answers[i].format, answers[i].answer);
        if (answers[i].refusal)
            assert_string_equal(said, answers[i].refusal);
        else
            assert_null(said);
        free(said);
    }
}

/* A reason with line breaks begins no header: titles are one printable line, texts come after the blank line. */
static void a_mail(void **state)
{
    (void)state;
    struct notice_message m;
    json_t *to = json_pack("[s, s]", "a@example.org", "b@example.org");
    notice_message_make(&m, &failed, 1, "inst", "box");
    snprintf(m.title, sizeof(m.title), "x\r\nBcc: y");
    char *mail = notice_payload_mail("me@box", to, "Sun, 22 Nov 2026 00:00:00 +0000", &m);
    assert_string_equal(mail,
                        "From: me@box\r\nTo: a@example.org, b@example.org\r\nSubject: x??Bcc: y\r\n"
                        "Date: Sun, 22 Nov 2026 00:00:00 +0000\r\nMessage-ID: <inst-7-1@box>\r\n"
                        "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
                        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
                        "x\r\r\nBcc: y\r\n"
                        "<!channel> <at user_id=\"all\"></at> @everyone a & b\r\nTo see more: jobctl why 7\r\n");
    free(mail);
    json_decref(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),         cmocka_unit_test(titles_of_events), cmocka_unit_test(a_bundle),
        cmocka_unit_test(formats_by_host), cmocka_unit_test(refusals),         cmocka_unit_test(a_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
