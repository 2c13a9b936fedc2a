/* SPDX-License-Identifier: Apache-2.0 */
/* notice_payload.c - see notice_payload.h */
#include "controller/notify/notice_payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

enum { DISCORD_MOST = 1900, MAIL_MOST = 2 * NOTICE_TEXT + 4096 };

static const char *const words[NOTICE_FORMATS] = { "json", "slack", "discord", "feishu", "dingtalk" };

static const struct { const char *host; enum notice_format format; } hosts[] = {
    { "hooks.slack.com", NOTICE_SLACK },      { "discord.com", NOTICE_DISCORD },
    { "discordapp.com", NOTICE_DISCORD },     { "open.feishu.cn", NOTICE_FEISHU },
    { "open.larksuite.com", NOTICE_FEISHU },  { "oapi.dingtalk.com", NOTICE_DINGTALK },
};

enum notice_format notice_payload_format_of(const char *word)
{
    int f = 0;
    while (f < NOTICE_FORMATS && strcmp(words[f], word) != 0)
        f++;
    return (enum notice_format)f;
}

enum notice_format notice_payload_format_of_url(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const size_t len = strcspn(host, "/:?#");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (strlen(hosts[i].host) == len && strncasecmp(host, hosts[i].host, len) == 0)
            return hosts[i].format;
    return NOTICE_JSON;
}

/* ---- webhooks ---- */

static json_t *job_of(const struct notice_row *n)
{
    return json_make("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "job", (json_int_t)n->job, "name", n->name, "event",
                     n->event, "reason", n->reason, "restarts", (json_int_t)n->restarts, "hangs",
                     (json_int_t)n->hangs, "first_ms", (json_int_t)n->first_ms, "last_ms", (json_int_t)n->last_ms);
}

static json_t *generic(const struct notice_message *m)
{
    json_t *jobs = json_array();
    for (size_t i = 0; i < m->n; i++)
        json_array_append_new(jobs, job_of(&m->rows[i]));
    return json_make("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "version", 1, "id", m->id, "event", m->event, "host",
                     m->host, "title", m->title, "text", m->text, "at_ms", (json_int_t)m->at_ms, "jobs", jobs);
}

/* Slack takes three characters as markup, also <!channel>. */
static void slack_text(char *out, size_t size, const char *text)
{
    const char *const marks = "&<>", *const names[] = { "&amp;", "&lt;", "&gt;" };
    out[0] = '\0';
    while (*text) {
        const size_t n = strcspn(text, marks);
        text_append(out, size, "%.*s", (int)n, text);
        text += n;
        if (*text)
            text_append(out, size, "%s", names[strchr(marks, *text++) - marks]);
    }
}

/* <at user_id="all"> would mention everybody. */
static void no_tags(char *text)
{
    for (; *text; text++)
        if (*text == '<')
            *text = '(';
}

/* Cut at a character. */
static void cut(char *text, size_t most)
{
    if (strlen(text) <= most)
        return;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    text[most] = '\0';
}

json_t *notice_payload(enum notice_format format, const struct notice_message *m)
{
    char text[NOTICE_TITLE + NOTICE_TEXT + 2], marked[5 * sizeof(text)];
    snprintf(text, sizeof(text), "%s\n%s", m->title, m->text);
    switch (format) {
    case NOTICE_SLACK:
        slack_text(marked, sizeof(marked), text);
        return json_make("{s:s}", "text", marked);
    case NOTICE_DISCORD:
        cut(text, DISCORD_MOST);
        return json_make("{s:s, s:{s:[]}}", "content", text, "allowed_mentions", "parse");
    case NOTICE_FEISHU:
        no_tags(text);
        return json_make("{s:s, s:{s:s}}", "msg_type", "text", "content", "text", text);
    case NOTICE_DINGTALK:
        return json_make("{s:s, s:{s:s}}", "msgtype", "text", "text", "content", text);
    case NOTICE_JSON:
    case NOTICE_FORMATS:
        break;
    }
    return generic(m);
}

char *notice_payload_refusal(enum notice_format format, const char *answer)
{
    const char *code = format == NOTICE_FEISHU ? "code" : format == NOTICE_DINGTALK ? "errcode" : NULL;
    json_t *doc = code ? json_loads(answer, 0, NULL) : NULL;
    char *text = NULL;
    if (field_int(doc, code ? code : "", 0) != 0) {
        const char *said = field_text(doc, format == NOTICE_FEISHU ? "msg" : "errmsg");
        text = strdup(said[0] ? said : "without a reason");
    }
    json_decref(doc);
    return text;
}

/* ---- mail ---- */

/* Without what could begin another header. */
static void header(char *out, size_t size, const char *name, const char *value)
{
    text_append(out, size, "%s: ", name);
    for (; *value; value++)
        text_append(out, size, "%c", (unsigned char)*value < ' ' || (unsigned char)*value > '~' ? '?' : *value);
    text_append(out, size, "\r\n");
}

static void recipients(char *out, size_t size, const json_t *to)
{
    char list[1024] = "";
    for (size_t i = 0; i < json_array_size(to); i++)
        text_append(list, sizeof(list), "%s%s", i ? ", " : "", json_string_value(json_array_get(to, i)));
    header(out, size, "To", list);
}

static void lines(char *out, size_t size, const char *text)
{
    while (*text) {
        const size_t n = strcspn(text, "\n");
        text_append(out, size, "%.*s\r\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

char *notice_payload_mail(const char *from, const json_t *to, const char *date, const struct notice_message *m)
{
    char *mail = calloc(1, MAIL_MOST), id[NOTICE_ID + NOTICE_HOST + 4];
    if (!mail)
        return NULL;
    snprintf(id, sizeof(id), "<%s@%s>", m->id, m->host);
    header(mail, MAIL_MOST, "From", from);
    recipients(mail, MAIL_MOST, to);
    header(mail, MAIL_MOST, "Subject", m->title);
    header(mail, MAIL_MOST, "Date", date);
    header(mail, MAIL_MOST, "Message-ID", id);
    header(mail, MAIL_MOST, "Auto-Submitted", "auto-generated");
    header(mail, MAIL_MOST, "MIME-Version", "1.0");
    header(mail, MAIL_MOST, "Content-Type", "text/plain; charset=utf-8");
    header(mail, MAIL_MOST, "Content-Transfer-Encoding", "8bit");
    text_append(mail, MAIL_MOST, "\r\n");
    lines(mail, MAIL_MOST, m->title);
    lines(mail, MAIL_MOST, m->text);
    return mail;
}
