/* SPDX-License-Identifier: Apache-2.0 */
/* notify_send.c - see notify_send.h
 *
 * libcurl's own sentences may quote a URL: only the sentence of its error code is told.
 */
#include "controller/notify/notify_send.h"

#include <curl/curl.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/redact.h"
#include "engine/base/buf.h"
#include "agent/os/subprocess.h"
#include "controller/notify/notice_payload.h"
#include "controller/notify/secret_ref.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

enum { ANSWER_MAX = 4096, FIELD = NOTICE_TITLE + 32, VARIABLES = 7 };

void notify_send_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- common to what libcurl does ---- */

static size_t keep_answer(char *bytes, size_t size, size_t count, void *user)
{
    struct buf *answer = user;
    const size_t n = size * count, room = ANSWER_MAX - answer->size;
    return buf_append(answer, bytes, n < room ? n : room) == 0 ? size * count : 0;
}

static CURL *curl_make(const char *url, struct buf *answer, struct err *err)
{
    CURL *c = curl_easy_init();
    if (!c) {
        err_set(err, ERR_MEMORY, "out of memory for a message");
        return NULL;
    }
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)NOTIFY_SEND_S);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
    return c;
}

/* ---- webhook ---- */

/* 408, 425 and 429 ask to try again. */
static bool is_refusal(long status)
{
    return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429;
}

static int judge(CURL *c, CURLcode code, enum notice_format format, struct buf *answer, bool *refused, struct err *err)
{
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        return err_set(err, ERR_SYSTEM, "the webhook does not answer: %s", curl_easy_strerror(code));
    if (status < 200 || status > 299) {
        *refused = is_refusal(status);
        return err_set(err, ERR_SYSTEM, "the webhook answers with HTTP status %ld", status);
    }
    char *said = notice_payload_refusal(format, answer->data ? answer->data : "");
    if (said) {
        *refused = true;
        err_set(err, ERR_SYSTEM, "the webhook refuses the message: %.200s", said);
    }
    free(said);
    return *refused ? -1 : 0;
}

static int post(const char *url, enum notice_format format, const char *body, bool *refused, struct err *err)
{
    struct buf answer;
    buf_init(&answer);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json; charset=utf-8");
    CURL *c = curl_make(url, &answer, err);
    int rc = -1;
    if (c && headers) {
        curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(c, CURLOPT_USERAGENT, "jobctl/" JOBCTL_VERSION);
        rc = judge(c, curl_easy_perform(c), format, &answer, refused, err);
    }
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    buf_fini(&answer);
    return rc;
}

static int send_webhook(const json_t *target, const struct notice_message *m, bool *refused, struct err *err)
{
    char *url = secret_ref_expand(field_text(target, "webhook"), err), *body = NULL;
    const char *word = field_text(target, "format");
    int rc = -1;
    if (!url)
        return -1;
    const enum notice_format format = word[0] ? notice_payload_format_of(word) : notice_payload_format_of_url(url);
    json_t *payload = notice_payload(format, m);
    if (payload && (body = json_dumps(payload, JSON_COMPACT)))
        rc = post(url, format, body, refused, err);
    else
        err_set(err, ERR_MEMORY, "out of memory for a message");
    json_decref(payload);
    free(body);
    free(url);
    return rc;
}

/* ---- programs ---- */

/* A file in memory, to be read from its begin; -1. */
static int file_of(const char *text, struct err *err)
{
    const int fd = memfd_create("jobctl-notice", MFD_CLOEXEC);
    const size_t n = strlen(text);
    if (fd >= 0 && write(fd, text, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return err_set(err, ERR_SYSTEM, "cannot keep a message in memory: %m");
}

/* Its own sentence on stderr may quote a secret. */
static void failed(const char *what, int code, const struct buf *said, struct err *err)
{
    const char *text = subprocess_text(said), *end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        end--;
    const char *line = end;
    while (line > text && line[-1] != '\n')
        line--;
    char last[200];
    snprintf(last, sizeof(last), "%.*s", (int)(end - line), line);
    char *clean = redact_text(NULL, last, NULL);
    if (code >= SUBPROCESS_SIGNALLED)
        err_set(err, ERR_SYSTEM, "%s was killed by signal %d", what, code - SUBPROCESS_SIGNALLED);
    else
        err_set(err, ERR_SYSTEM, "%s exited with code %d%s%s", what, code, clean && *clean ? ": " : "",
                clean ? clean : "");
    free(clean);
}

static int run(const char *what, const char *const *argv, const char *const *set, const char *input, struct err *err)
{
    struct buf out[2] = { { .data = NULL }, { .data = NULL } };
    const int in = file_of(input, err);
    if (in < 0)
        return -1;
    const struct subprocess_spec spec = { .argv = argv, .set = set, .cwd = "/", .in = in, .out = SUBPROCESS_NULL,
                                          .err = SUBPROCESS_PIPE, .session = true, .tied = true,
                                          .limit_ms = NOTIFY_SEND_S * 1000, .most = ANSWER_MAX };
    const int code = subprocess_run(&spec, out, NOTIFY_SEND_S * 1000, err);
    close(in);
    if (code > 0)
        failed(what, code, &out[1], err);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return code == 0 ? 0 : -1;
}

static int send_command(const json_t *target, const struct notice_message *m, struct err *err)
{
    char set[VARIABLES][FIELD], input[NOTICE_TITLE + NOTICE_TEXT + 4];
    const char *list[VARIABLES + 1] = { NULL };
    const char *argv[] = { "/bin/sh", "-c", field_text(target, "command"), NULL };
    for (int i = 0; i < VARIABLES; i++)
        list[i] = set[i];
    snprintf(set[0], FIELD, "JOBCTL_NOTIFY_ID=%s", m->id);
    snprintf(set[1], FIELD, "JOBCTL_NOTIFY_EVENT=%s", m->event);
    snprintf(set[2], FIELD, "JOBCTL_NOTIFY_HOST=%s", m->host);
    snprintf(set[3], FIELD, "JOBCTL_NOTIFY_TITLE=%s", m->title);
    snprintf(set[4], FIELD, "JOBCTL_NOTIFY_JOBS=%zu", m->n);
    set[5][0] = set[6][0] = '\0';
    snprintf(set[5], FIELD, "JOBCTL_NOTIFY_JOB=");
    snprintf(set[6], FIELD, "JOBCTL_NOTIFY_NAME=");
    if (m->n == 1) {
        snprintf(set[5], FIELD, "JOBCTL_NOTIFY_JOB=%lld", (long long)m->rows[0].job);
        snprintf(set[6], FIELD, "JOBCTL_NOTIFY_NAME=%s", m->rows[0].name);
    }
    snprintf(input, sizeof(input), "%s\n%s\n", m->title, m->text);
    return run("the command", argv, list, input, err);
}

/* ---- mail ---- */

static void mail_from(char *out, size_t size, const json_t *target, const char *host)
{
    struct passwd pw, *found = NULL;
    char room[4096];
    const char *given = field_text(target, "from");
    if (!given[0])
        getpwuid_r(geteuid(), &pw, room, sizeof(room), &found);
    if (given[0])
        snprintf(out, size, "%s", given);
    else
        snprintf(out, size, "%s@%s", found ? pw.pw_name : "jobctl", host);
}

static void mail_date(char *out, size_t size)
{
    const time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, size, "%a, %d %b %Y %H:%M:%S +0000", &tm);
}

static int send_sendmail(const json_t *target, const char *from, const char *mail, struct err *err)
{
    const json_t *to = json_object_get(target, "email");
    const char *argv[32] = { "/usr/sbin/sendmail", "-i", "-f", from, "--" };
    const char *other = getenv("JOBCTL_SENDMAIL");
    int n = 5;
    if (other && other[0])
        argv[0] = other;
    for (size_t i = 0; i < json_array_size(to) && n < 31; i++)
        argv[n++] = json_string_value(json_array_get(to, i));
    if (access(argv[0], X_OK) < 0)
        return err_set(err, ERR_USAGE, "%s is not installed: install a mail server such as msmtp-mta, or set smtp of "
                       "this target", argv[0]);
    return run("sendmail", argv, NULL, mail, err);
}

struct reading {
    const char *text;
    size_t      left;
};

static size_t read_mail(char *out, size_t size, size_t count, void *user)
{
    struct reading *r = user;
    const size_t n = size * count < r->left ? size * count : r->left;
    memcpy(out, r->text, n);
    r->text += n;
    r->left -= n;
    return n;
}

static struct curl_slist *recipients(const json_t *to)
{
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < json_array_size(to); i++)
        list = curl_slist_append(list, json_string_value(json_array_get(to, i)));
    return list;
}

/* STARTTLS where the server has it; a password is never sent without. */
static int set_login(CURL *c, const json_t *target, const char *url, struct err *err)
{
    const char *user = field_text(target, "user");
    char *password = secret_ref_expand(field_text(target, "password"), err);
    if (!password)
        return -1;
    const bool needed = password[0] && strncmp(url, "smtp://", 7) == 0;
    curl_easy_setopt(c, CURLOPT_USE_SSL, needed ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_TRY);
    if (user[0])
        curl_easy_setopt(c, CURLOPT_USERNAME, user);
    if (password[0])
        curl_easy_setopt(c, CURLOPT_PASSWORD, password);
    explicit_bzero(password, strlen(password));
    free(password);
    return 0;
}

static int smtp_result(CURL *c, CURLcode code, bool *refused, struct err *err)
{
    long status = 0;
    if (code == CURLE_OK)
        return 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    *refused = status >= 500 && status <= 599 && code != CURLE_LOGIN_DENIED;
    if (status > 0)
        return err_set(err, ERR_SYSTEM, "the mail server answers with %ld: %s", status, curl_easy_strerror(code));
    return err_set(err, ERR_SYSTEM, "the mail server does not answer: %s", curl_easy_strerror(code));
}

static int send_smtp(const json_t *target, const char *from, const char *mail, bool *refused, struct err *err)
{
    struct reading reading = { .text = mail, .left = strlen(mail) };
    struct buf answer;
    buf_init(&answer);
    char *url = secret_ref_expand(field_text(target, "smtp"), err);
    struct curl_slist *to = recipients(json_object_get(target, "email"));
    CURL *c = url ? curl_make(url, &answer, err) : NULL;
    int rc = c && to ? set_login(c, target, url, err) : -1;
    if (rc == 0) {
        curl_easy_setopt(c, CURLOPT_MAIL_FROM, from);
        curl_easy_setopt(c, CURLOPT_MAIL_RCPT, to);
        curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c, CURLOPT_READFUNCTION, read_mail);
        curl_easy_setopt(c, CURLOPT_READDATA, &reading);
        rc = smtp_result(c, curl_easy_perform(c), refused, err);
    }
    curl_easy_cleanup(c);
    curl_slist_free_all(to);
    buf_fini(&answer);
    free(url);
    return rc;
}

static int send_mail(const json_t *target, const struct notice_message *m, bool *refused, struct err *err)
{
    char from[320], date[64];
    mail_from(from, sizeof(from), target, m->host);
    mail_date(date, sizeof(date));
    char *mail = notice_payload_mail(from, json_object_get(target, "email"), date, m);
    int rc = -1;
    if (!mail)
        err_set(err, ERR_MEMORY, "out of memory for a mail");
    else if (json_object_get(target, "smtp"))
        rc = send_smtp(target, from, mail, refused, err);
    else
        rc = send_sendmail(target, from, mail, err);
    free(mail);
    return rc;
}

int notify_send(const json_t *target, const struct notice_message *m, bool *refused, struct err *err)
{
    *refused = false;
    if (json_object_get(target, "webhook"))
        return send_webhook(target, m, refused, err);
    if (json_object_get(target, "email"))
        return send_mail(target, m, refused, err);
    return send_command(target, m, err);
}
