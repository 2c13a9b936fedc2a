/* SPDX-License-Identifier: Apache-2.0 */
/* test_redact.c - what is removed from text and trees, and what is kept
 *
 * Secrets are made here from templates and random letters, so that no file of the tree looks as if
 * it had one. A secret has two fragments of random letters; neither may be left.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "agent/core/redact.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char hex[] = "0123456789abcdef",
                  upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", mixed[] = "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789";

/* A reproducible sequence. */
static void fill(char *out, size_t n, const char *letters)
{
    static uint64_t state = 15;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = letters[(state >> 33) % strlen(letters)];
    }
    out[n > 2 ? n - 2 : 0] = '7'; /* some shapes demand a digit */
    out[n] = '\0';
}

struct secret {
    char head[80], tail[80]; /* random letters */
    const char *prefix, *middle;
};

static struct secret secret_of(const char *prefix, const char *middle, size_t n, const char *letters)
{
    struct secret s = {.prefix = prefix, .middle = middle};
    fill(s.head, n / 2, letters);
    fill(s.tail, n - n / 2, letters);
    return s;
}

/* The template with the secret in the place of @. `middle` stands between its fragments. */
static void put(char *out, size_t size, const char *form, const struct secret *s, const char *middle)
{
    const char *at = strchr(form, '@');
    snprintf(out, size, "%.*s%s%s%s%s%s", (int)(at - form), form, s->prefix, s->head, middle, s->tail, at + 1);
}

static char *dumped(json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(value);
    assert_non_null(text);
    return text;
}

static void check_gone(const struct redact *r, const struct secret *s, const char *text)
{
    size_t size;
    char *clean = redact_text(r, text, &size), *again = redact_text(r, clean, NULL);
    assert_non_null(clean);
    assert_int_equal(size, strlen(clean));
    if (strstr(clean, s->head) || strstr(clean, s->tail) || !strstr(clean, REDACTED))
        fail_msg("left in: %s\nfrom:    %s", clean, text);
    assert_string_equal(clean, again);
    free(clean);
    free(again);
}

static void check_tree(const struct redact *r, const struct secret *s, const char *text)
{
    json_t *tree = json_pack("{s:s, s:[s, {s:s}]}", "text", "a", "lines", "step 4", "line", text);
    json_t *clean = redact_tree(r, tree, NULL);
    char *after = dumped(clean);
    if (strstr(after, s->head) || strstr(after, s->tail))
        fail_msg("left in the tree: %s\nfrom: %s", after, text);
    free(after);
    json_decref(tree);
}

/* Raw, as a value of a tree, in JSON, in JSON within JSON, and split over quotes in each of them. */
static void check_everywhere(const struct redact *r, const struct secret *s, const char *form)
{
    static const char *const splits[] = {"", "\"\"", "'\"'\"'", "\"'"};
    for (size_t i = 0; i < ARRAY_LEN(splits); i++) {
        char raw[1000], line[1100];
        put(raw, sizeof(raw), form, s, i == 0 ? s->middle : splits[i]);
        snprintf(line, sizeof(line), "12:00 rank 3: %s\nstep 5", raw);
        check_gone(r, s, line);
        check_tree(r, s, raw);
        char *once = dumped(json_pack("{s:s, s:i}", "msg", raw, "step", 5));
        check_gone(r, s, once);
        char *twice = dumped(json_pack("{s:s}", "line", once));
        check_gone(r, s, twice);
        free(once);
        free(twice);
    }
}

static void keys_of_services_go(void **state)
{
    (void)state;
    static const struct {
        const char *prefix;
        size_t      len;
        const char *letters;
    } rows[] = {
        {"hf_", 34, mixed}, {"api_org_", 34, mixed}, {"sk-", 48, mixed}, {"sk-proj-", 60, mixed},
        {"sk-ant-api03-", 60, mixed}, {"sk_live_", 24, mixed}, {"sk_test_", 24, mixed},
        {"rk_live_", 24, mixed}, {"rk_test_", 24, mixed}, {"whsec_", 32, mixed}, {"ghp_", 36, mixed},
        {"gho_", 36, mixed}, {"ghu_", 36, mixed}, {"ghs_", 36, mixed}, {"ghr_", 36, mixed},
        {"github_pat_", 60, mixed}, {"glpat-", 20, mixed}, {"gldt-", 20, mixed}, {"glrt-", 20, mixed},
        {"glptt-", 40, hex}, {"glcbt-", 20, mixed}, {"gloas-", 64, hex}, {"AKIA", 16, upper},
        {"ASIA", 16, upper}, {"LTAI", 20, mixed}, {"xoxb-", 40, mixed}, {"xoxp-", 40, mixed},
        {"xoxa-", 40, mixed}, {"xoxr-", 40, mixed}, {"xoxs-", 40, mixed}, {"xapp-", 40, mixed},
        {"AIza", 35, mixed}, {"ya29.", 60, mixed}, {"GOCSPX-", 28, mixed}, {"npm_", 36, mixed},
        {"pypi-", 70, mixed}, {"rubygems_", 48, hex}, {"dop_v1_", 64, hex}, {"doo_v1_", 64, hex},
        {"dor_v1_", 64, hex}, {"shpat_", 32, hex}, {"shpss_", 32, hex}, {"shpca_", 32, hex},
        {"SG.", 66, mixed}, {"lin_api_", 40, mixed}, {"ntn_", 46, mixed}, {"figd_", 40, mixed},
        {"dckr_pat_", 27, mixed}, {"dckr_oat_", 27, mixed}, {"dapi", 32, hex}, {"r8_", 37, mixed},
        {"gsk_", 52, mixed}, {"xai-", 70, mixed}, {"pplx-", 48, mixed}, {"nvapi-", 64, mixed},
        {"hvs.", 60, mixed}, {"hvb.", 60, mixed}, {"tskey-", 40, mixed}, {"PMAK-", 58, hex},
        {"sq0csp-", 43, mixed}, {"sq0atp-", 22, mixed}, {"AGE-SECRET-KEY-1", 58, upper},
        {"pul-", 40, hex}, {"glsa_", 41, mixed}, {"glc_", 60, mixed}, {"sntrys_", 60, mixed},
        {"NRAK-", 27, upper}, {"dp.pt.", 43, mixed}, {"dp.st.", 43, mixed}, {"ATATT3x", 70, mixed},
        {"ATCTT3x", 70, mixed}, {"sbp_", 40, hex}, {"CLOJARS_", 60, hex}, {"key-", 32, hex},
        {"https://hooks.slack.com/services/", 44, mixed}, {"https://discord.com/api/webhooks/", 70, mixed},
        {"eyJhbGciOi.", 60, mixed},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct secret s = secret_of(rows[i].prefix, "", rows[i].len, rows[i].letters);
        check_everywhere(NULL, &s, "login with @ done");
    }
    print_message("%zu keys\n", ARRAY_LEN(rows));
    assert_in_range(ARRAY_LEN(rows), 70, 1000);
}

/* Middles that programs write with escapes, or that end a value elsewhere. */
static const char *const middles[] = {"", "-", ".", "!", "$x", "%", "^&*", "+/", "#", "é"};

static void values_after_telling_names_go(void **state)
{
    (void)state;
    static const char *const names[] = {
        "token", "HF_TOKEN", "hf_token", "accessToken", "refresh-token", "WANDB_API_KEY", "apikey",
        "api-key", "X-Api-Key", "password", "DB_PASSWORD", "passwd", "pwd", "DB_PASS", "passphrase",
        "secret", "client_secret", "clientSecret", "AWS_SECRET_ACCESS_KEY", "private_key",
        "AccountKey", "SharedAccessKey", "spark.hadoop.fs.s3a.secret.key", "MINIO_SECRET_KEY_2",
        "credential", "ENCRYPTION_KEY", "nonce", "AUTHKEY",
    };
    static const char *const forms[] = {"~=@", "~: @", "\"~\": \"@\"", "{'~': '@', 'step': 4}",
                                        "export ~=\"@\"", "os.environ[\"~\"] = \"@\"",
                                        "https://host/path?a=1&~=@&b=2"};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (size_t f = 0; f < ARRAY_LEN(forms); f++, n++) {
            char form[200];
            const struct secret s = secret_of("", middles[n % ARRAY_LEN(middles)], 18, mixed);
            const char *name = strchr(forms[f], '~');
            snprintf(form, sizeof(form), "%.*s%s%s", (int)(name - forms[f]), forms[f], names[i], name + 1);
            check_everywhere(NULL, &s, form);
        }
    print_message("%zu names and values\n", n);
    assert_in_range(n, 150, 1000);
}

static void other_shapes_go(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "--token @", "--password @", "--api-key=@", "--api-key @ --steps 4", "--secret '@'", "-password @",
        "--hf-token \"@\" x.py", "['--token', '@']", "curl -u me:@ https://host/", "curl -s --user me:@ host",
        "curl -ume:@ host", "curl -x p --proxy-user 'me:@' h", "sshpass -p @ ssh host", "mysql -u root -p@ db",
        "redis-cli -h host -a @ ping", "docker login -u me -p @", "machine host login me password @",
        "CREATE USER x IDENTIFIED BY '@'", "Authorization: Basic @", "Authorization: Bearer @",
        "curl -H 'Authorization: Token @' host", "authorization: @", "Proxy-Authorization: Basic @",
        "{'Authorization': 'Bearer @'}", "Cookie: session=@; path=/", "Set-Cookie: id=@", "X-Auth-Token: @",
        "PRIVATE-TOKEN: @", "sent Basic @", "sent Bearer @", "https://me:@x@host/path", "http://:@z@host",
        "postgres://me:@y@host:5432/db", "postgresql+psycopg2://u:@q@h/d", "mysql://u:@q@h/d",
        "redis://:@q@h:6379/0", "amqp://u:@q@h/v", "mongodb+srv://u:@q@h/?w=1", "s3://k:@q@bucket/x",
        "git clone https://oauth2:@q@host/x.git", "ftp://u:p/@q@host", "https://@9@o1.ingest.example/1",
        "user:@q@tcp(db:3306)/x", "user:@q@unix(/tmp/s)/x", "Server=h;Uid=u;Pwd=@;", "host=h password=@ user=u",
        "https://a.example/c?sv=2022&sig=@aaaaaaaa", "https://b/o?X-Amz-Signature=@00000000&x=1",
        "https://b/o?X-Amz-Credential=@&x=1", "https://b/o?X-Amz-Security-Token=@",
        "AccountName=a;AccountKey=@;EndpointSuffix=x", "Endpoint=sb://x/;SharedAccessKey=@", "token%3D@",
        "TOKEN:=@", "token => '@'", "password=[redacted]@",
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        char form[200];
        const struct secret s = secret_of("", "", 20, mixed);
        snprintf(form, sizeof(form), "%s", forms[i]);
        check_everywhere(NULL, &s, form);
    }
    print_message("%zu other shapes\n", ARRAY_LEN(forms));
    assert_in_range(ARRAY_LEN(forms), 50, 1000);
}

/* Exactly the secret goes: what stands before and behind it says where it was. */
static void what_is_around_a_secret_stays(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "by root:@@tcp(db:3306)/x?a=b", "by root:@@unix(/tmp/s)/x", "git clone https://me:@@host/x.git now",
        "postgres://me:@@host:5432/db", "curl -H 'Authorization: Bearer @' host", "HF_TOKEN=@ python x.py",
        "{'password': '@', 'step': 4}", "login with --token @ --steps 4",
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        char text[300], want[300];
        const struct secret s = secret_of("", "", 24, mixed), gone = {.prefix = REDACTED, .middle = ""};
        put(text, sizeof(text), forms[i], &s, "");
        put(want, sizeof(want), forms[i], &gone, "");
        char *clean = redact_text(NULL, text, NULL);
        assert_string_equal(clean, want);
        free(clean);
    }
}

static void private_keys_go(void **state)
{
    (void)state;
    static const char *const kinds[] = {"", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP "};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        char form[300];
        const char *block = i == 6 ? " BLOCK" : "";
        const struct secret s = secret_of("MIIE", "\n", 100, mixed);
        snprintf(form, sizeof(form), "-----BEGIN %sPRIVATE KEY%s-----\n@\n-----END %sPRIVATE KEY%s-----",
                 kinds[i], block, kinds[i], block);
        check_everywhere(NULL, &s, form);
        *strstr(form, "\n-----END") = '\0'; /* cut off */
        check_everywhere(NULL, &s, form);
    }
}

/* Lines of output as elements of an array, arguments, pairs of name and value. */
static void structure_tells_of_secrets(void **state)
{
    (void)state;
    const struct secret s = secret_of("", "", 60, mixed);
    json_t *tree = json_pack("{s:[s, s, s], s:[{s:s, s:s}], s:{s:[s]}, s:s}", "argv", "train", "--password",
                             s.head, "env", "name", "API_KEY", "value", s.tail, "more", "password", s.head,
                             "client_secret", s.tail);
    char begin[60];
    snprintf(begin, sizeof(begin), "-----BEGIN %sPRIVATE KEY-----", "RSA ");
    json_object_set_new(tree, "lines", json_pack("[s, s, s, s]", begin, s.head, s.tail, "-----END KEY-----"));
    char *text = dumped(redact_tree(NULL, tree, NULL));
    if (strstr(text, s.head) || strstr(text, s.tail))
        fail_msg("left in: %s", text);
    free(text);
    json_decref(tree);
}

static void keys_to_keep_stay(void **state)
{
    (void)state;
    json_t *body = json_pack("{s:s, s:s, s:s, s:i, s:n, s:b}", "path", "/x/password=1/step-4", "nonce", "abc",
                             "text", "password=1", "step", 4, "rank", "fresh", 1);
    json_t *clean = redact_event(NULL, body);
    json_object_set_new(body, "text", json_string("password=" REDACTED));
    assert_true(json_equal(body, clean));
    json_decref(body);
    json_decref(clean);
}

/* ---- known values ---- */

static char *url_encoded(const char *text)
{
    char *out = malloc(3 * strlen(text) + 1), *p = out;
    for (; *text; text++)
        p += strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", *text)
                 ? sprintf(p, "%c", *text) : sprintf(p, "%%%02X", (unsigned char)*text);
    *p = '\0';
    return out;
}

static char *shell_quoted(const char *text)
{
    char *out = malloc(4 * strlen(text) + 3), *p = out;
    *p++ = '\'';
    for (; *text; text++)
        p += *text == '\'' ? sprintf(p, "'\\''") : sprintf(p, "%c", *text);
    strcpy(p, "'");
    return out;
}

static char *backslashed(const char *text)
{
    char *out = malloc(2 * strlen(text) + 1), *p = out;
    for (; *text; text++)
        p += sprintf(p, strchr(" \"'\\$`!&;", *text) ? "\\%c" : "%c", *text);
    return out;
}

static char *base64(const char *before, const char *text)
{
    char in[300], *out = malloc(500);
    snprintf(in, sizeof(in), "%s%s:after", before, text);
    EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in, (int)strlen(in));
    return out;
}

static char *hexadecimal(const char *text)
{
    char *out = malloc(2 * strlen(text) + 1), *p = out;
    for (; *text; text++)
        p += sprintf(p, "%02X", (unsigned char)*text);
    return out;
}

/* As PHP, Go and Python write some characters; `with`: "u00" for \u003c, "x" for \x3c. */
static char *escaped(const char *text, const char *with)
{
    char *out = malloc(6 * strlen(text) + 1), *p = out;
    for (; *text; text++)
        p += isalnum((unsigned char)*text) ? sprintf(p, "%c", *text)
                                           : sprintf(p, "\\%s%02x", with, (unsigned char)*text);
    return out;
}

/* As a form in a browser sends it. */
static char *form_encoded(const char *text)
{
    char *out = malloc(3 * strlen(text) + 1), *p = out;
    for (; *text; text++)
        p += *text == ' ' ? sprintf(p, "+") : isalnum((unsigned char)*text) ? sprintf(p, "%c", *text)
                                                                            : sprintf(p, "%%%02X", (unsigned char)*text);
    return out;
}

/* Takes `text`; the letters in the middle of the encoded value must be gone from the output. */
static void check_known(const struct redact *r, char *text, size_t from, size_t to)
{
    char line[1000], inner[500];
    snprintf(inner, sizeof(inner), "%.*s", (int)(strlen(text) - from - to), text + from);
    snprintf(line, sizeof(line), "it is %s, said rank 3", text);
    char *clean = redact_text(r, line, NULL);
    if (strstr(clean, inner) || !strstr(clean, REDACTED) || !strstr(clean, "said rank 3"))
        fail_msg("left in: %s\nfrom: %s", clean, line);
    free(clean);
    free(text);
}

static void known_values_go_in_every_encoding(void **state)
{
    (void)state;
    static const char *const middles_of_known[] = {"-", " ", "\"", "\\", "\"\\", "'", "/", "+", "%", "&", "é",
                                                   "\n", "\t", "$x", "`", "\\x5c", "ß∂", "=", "@", ":", "😀"};
    for (size_t i = 0; i < ARRAY_LEN(middles_of_known); i++) {
        char value[200];
        const struct secret s = secret_of("", "", 24, mixed);
        snprintf(value, sizeof(value), "%s%s%s", s.head, middles_of_known[i], s.tail);
        struct redact *r = redact_create();
        assert_int_equal(redact_add(r, value), 0);
        char *json = dumped(json_string(value));
        check_known(r, strdup(value), 0, 0);
        check_known(r, dumped(json_string(json)), 3, 3);
        check_known(r, json, 1, 1);
        json_t *text = json_string(value);
        check_known(r, json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII), 1, 1);
        json_decref(text);
        check_known(r, url_encoded(value), 0, 0);
        check_known(r, form_encoded(value), 0, 0);
        check_known(r, escaped(value, "u00"), 0, 0);
        check_known(r, escaped(value, "x"), 0, 0);
        check_known(r, shell_quoted(value), 1, 1);
        check_known(r, backslashed(value), 0, 0);
        check_known(r, hexadecimal(value), 0, 0);
        check_known(r, base64("", value), 4, 14);
        check_known(r, base64("u:", value), 4, 14);
        check_known(r, base64("me:", value), 8, 14);
        check_known(r, base64("you:", value), 8, 14);
        redact_destroy(r);
    }
}

static void short_values_are_not_known(void **state)
{
    (void)state;
    struct redact *r = redact_create();
    assert_int_equal(redact_add(r, "ok"), 0);
    assert_int_equal(redact_add(r, NULL), 0);
    char *clean = redact_text(r, "ok, all is ok", NULL);
    assert_string_equal(clean, "ok, all is ok");
    free(clean);
    redact_destroy(r);
}

/* ---- what stays ---- */

static void look_alikes_stay(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "xxh3:#32", "sha256:#64", "sha512:#128", "md5 #32", "commit #40", "HEAD is now at #7", "index #7..#7",
        "id #8-#4-#4-#4-#12", "GPU-#8-#4-#4-#4-#12", "image host/app:tag@sha256:#64",
        "docker://host:5000/a@sha256:#64",
        "boot_id=#8-#4-#4-#4-#12", "digest: xxh3:#32", "etag \"#32\"", "run-#16", "sample #64.png", "cache/#2/#62",
        "layer #12: Pull complete", "blob #40 100644", "data:image/png;base64,+200",
        "data:image/jpeg;base64,/9j/+300",
        "iVBORw0KGgo+300", "\"picture\": \"+400=\"", "payload +76\n+76\n+40==", "step 4 loss 0.25",
        "step 100000/200000",
        "tokens: 512", "num_tokens=1024", "tokens/s: 3000.5", "max_token_length: 300", "pad_token: <pad>",
        "eos_token_id: 2",
        "eos_token: </s>", "bos_token='<s>'", "token 31999 of 32000", "token: 42", "last_token=17",
        "tokenizer: /models/tok",
        "--tokenizer-path /models/tok", "/home/me/run-4/checkpoints/step-100/model.safetensors", "PWD=/home/me/work",
        "OLDPWD=/home/me", "hf_short stays", "hf_hub_download of a file", "hf_internal_testing_tiny_random",
        "task-one-two",
        "author: me", "compass: north", "bypass=1", "passes: 3", "design: round", "keyboard=us", "key: 3",
        "public_key: #32",
        "http://host:8080/path", "http://host:8080/a@b", "https://host/user@example/x", "git@host.example:org/x.git",
        "ssh://git@host/x.git", "mail me@example.org",
        "-----BEGIN CERTIFICATE-----\nMIIB+60\n-----END CERTIFICATE-----",
        "Basic understanding of it", "Bearer authentication failed", "docker run -u 1000:1000 x", "sort -u a:b",
        "tar -p file",
        "HF_TOKEN=$HF_TOKEN", "--token ${HF_TOKEN}", "password: null", "token = None", "secrets: [HF_TOKEN]",
        "secretary: x",
        "nccl 2.21.5+cuda12.4", "10.0.0.1:29500", "[::1]:8080", "2026-03-01T10:22:31.042Z", "lr=1e-4, grad_norm: 0.5",
        "token::parse(x)", "cudaErrorIllegalAddress at 0x#16", "0x7f#10", "mtime 1767225600",
        "KeyError: 'weights.#4'",
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        char text[1000] = "", tail[500];
        for (const char *p = forms[i]; *p;) {
            char *end = (char *)(uintptr_t)p;
            size_t n = *p == '#' || *p == '+' ? strtoul(p + 1, &end, 10) : 0;
            if (n > 0 && !(*p == '+' && n == 12))
                fill(tail, n, *p == '#' ? hex : mixed);
            else
                snprintf(tail, sizeof(tail), "%c", *p), end = (char *)(uintptr_t)p + 1;
            strcat(text, tail);
            p = end;
        }
        char *clean = redact_text(NULL, text, NULL), *json = dumped(json_pack("{s:s}", "text", text));
        assert_string_equal(clean, text);
        free(clean);
        clean = redact_text(NULL, json, NULL);
        assert_string_equal(clean, json);
        free(clean);
        free(json);
    }
    print_message("%zu look-alikes\n", ARRAY_LEN(forms));
    assert_in_range(ARRAY_LEN(forms), 60, 1000);
}

static void the_rest_of_a_line_stays(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
    } rows[] = {
        {"", ""},
        {"WANDB_API_KEY=0123abc, ok", "WANDB_API_KEY=[redacted], ok"},
        {"{\"hf_token\": \"x1\", \"steps\": 4}", "{\"hf_token\": \"[redacted]\", \"steps\": 4}"},
        {"{\"password\":\"p\\\"ass\\\\word1\",\"n\":4}", "{\"password\":\"[redacted]\",\"n\":4}"},
        {"{\"line\":\"{\\\"password\\\":\\\"p\\\\\\\"a\\\\\\\\w\\\",\\\"n\\\":4}\"}",
         "{\"line\":\"{\\\"password\\\":\\\"[redacted]\\\",\\\"n\\\":4}\"}"},
        {"Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"},
        {"--password hunter2 --steps 4", "--password [redacted] --steps 4"},
        {"postgres://me:pa:ss@host/db?x=1", "postgres://me:[redacted]@host/db?x=1"},
        {"https://h/?token=a1&step=4", "https://h/?token=[redacted]&step=4"},
        {"curl -u me:pw https://h/", "curl -u [redacted] https://h/"},
        {"password=a,b;c d", "password=[redacted] d"},
        {"Pwd=x;Uid=u", "Pwd=[redacted];Uid=u"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *clean = redact_text(NULL, rows[i].text, NULL);
        assert_string_equal(clean, rows[i].clean);
        free(clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_services_go),
        cmocka_unit_test(values_after_telling_names_go),
        cmocka_unit_test(other_shapes_go),
        cmocka_unit_test(what_is_around_a_secret_stays), cmocka_unit_test(private_keys_go),
        cmocka_unit_test(structure_tells_of_secrets),
        cmocka_unit_test(keys_to_keep_stay),
        cmocka_unit_test(known_values_go_in_every_encoding),
        cmocka_unit_test(short_values_are_not_known),
        cmocka_unit_test(look_alikes_stay),
        cmocka_unit_test(the_rest_of_a_line_stays),
    };
    return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
