/* SPDX-License-Identifier: Apache-2.0 */
/* redact.c - see redact.h
 *
 * Text is read twice: known values first, then shapes. Each row of `finders` looks at one position
 * and returns the span of a secret that begins there or, with a lead to keep, a little later.
 */
#include "agent/core/redact.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/os/buf.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { KNOWN_LEAST = 6, NAME_MOST = 80, LINE_MOST = 500 };

struct redact {
    size_t n, room;
    char **known;
};

/* `lead` bytes stay, then `len` bytes go; len 0: no secret. */
struct span {
    size_t lead, len;
};

/* ---- tables ---- */

enum charset { ALNUM, WORD, DOTTED, UPPER, HEX, PATHLIKE, CREDENTIAL };

/* Keys of well-known services: a prefix, and the minimum number of characters that follow. */
static const struct key_row {
    const char  *prefix;
    enum charset set;
    size_t       least;
} keys[] = {
    {"hf_", ALNUM, 20}, {"api_org_", ALNUM, 20}, {"sk-", WORD, 20}, {"sk_live_", ALNUM, 16},
    {"sk_test_", ALNUM, 16}, {"rk_live_", ALNUM, 16}, {"rk_test_", ALNUM, 16}, {"whsec_", ALNUM, 20},
    {"ghp_", ALNUM, 20}, {"gho_", ALNUM, 20}, {"ghu_", ALNUM, 20}, {"ghs_", ALNUM, 20},
    {"ghr_", ALNUM, 20}, {"github_pat_", WORD, 20}, {"glpat-", WORD, 16}, {"gldt-", WORD, 16},
    {"glrt-", WORD, 16}, {"glptt-", WORD, 16}, {"glcbt-", WORD, 16}, {"gloas-", WORD, 16},
    {"AKIA", UPPER, 16}, {"ASIA", UPPER, 16}, {"LTAI", ALNUM, 16}, {"xoxb-", WORD, 16},
    {"xoxp-", WORD, 16}, {"xoxa-", WORD, 16}, {"xoxr-", WORD, 16}, {"xoxs-", WORD, 16},
    {"xapp-", WORD, 16}, {"AIza", WORD, 30}, {"ya29.", DOTTED, 20}, {"GOCSPX-", WORD, 20},
    {"npm_", ALNUM, 30}, {"pypi-", WORD, 40}, {"rubygems_", HEX, 40}, {"dop_v1_", HEX, 40},
    {"doo_v1_", HEX, 40}, {"dor_v1_", HEX, 40}, {"shpat_", HEX, 30}, {"shpss_", HEX, 30},
    {"shpca_", HEX, 30}, {"SG.", DOTTED, 40}, {"lin_api_", ALNUM, 30}, {"ntn_", ALNUM, 40},
    {"figd_", WORD, 30}, {"dckr_pat_", WORD, 20}, {"dckr_oat_", WORD, 20}, {"dapi", HEX, 32},
    {"r8_", ALNUM, 30}, {"gsk_", ALNUM, 40}, {"xai-", ALNUM, 40}, {"pplx-", ALNUM, 40},
    {"nvapi-", WORD, 40}, {"hvs.", WORD, 20}, {"hvb.", WORD, 20}, {"tskey-", WORD, 16},
    {"PMAK-", WORD, 20}, {"sq0csp-", WORD, 20}, {"sq0atp-", WORD, 20}, {"AGE-SECRET-KEY-1", UPPER, 50},
    {"pul-", HEX, 40}, {"glsa_", WORD, 30}, {"glc_", ALNUM, 30}, {"sntrys_", WORD, 30},
    {"NRAK-", UPPER, 20}, {"dp.pt.", ALNUM, 40}, {"dp.st.", DOTTED, 40}, {"ATATT3x", WORD, 30},
    {"ATCTT3x", WORD, 30}, {"sbp_", HEX, 40}, {"CLOJARS_", HEX, 50}, {"key-", HEX, 32},
    {"hooks.slack.com/services/", PATHLIKE, 20}, {"discord.com/api/webhooks/", PATHLIKE, 20},
};

enum name_flag {
    END = 1,       /* a word of its own: DB_PASS and dbPass, not compass */
    NUMBERS = 2,   /* a number after it stays: token: 512 */
    HEADER = 4,    /* the rest of the line, after the scheme */
};

/* Names end so, in any case, with - and _ left out, and digits after them. */
static const struct name_row {
    const char *end;
    int         flags;
    size_t      least; /* characters of the value */
} names[] = {
    {"token", NUMBERS, 1}, {"secret", 0, 1}, {"password", 0, 1}, {"passwd", 0, 1},
    {"passphrase", 0, 1}, {"pass", END, 1}, {"pwd", END, 1}, {"apikey", 0, 1},
    {"accesskey", 0, 1}, {"accesskeyid", 0, 1}, {"accountkey", 0, 1}, {"privatekey", 0, 1},
    {"secretkey", 0, 1}, {"authkey", 0, 1}, {"encryptionkey", 0, 1}, {"signingkey", 0, 1},
    {"masterkey", 0, 1}, {"sharedkey", 0, 1}, {"credential", 0, 1}, {"credentials", 0, 1},
    {"nonce", 0, 1}, {"authorization", HEADER, 1}, {"cookie", HEADER, 1}, {"sig", END, 16},
    {"signature", 0, 16}, {"xauth", 0, 1}, {"dockerauth", 0, 1},
};

/* Special tokens of a vocabulary are no secrets. */
static const char *const vocabulary[] = {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image",
                                         "special", "last", "first", "next", "per"};

/* Values that say that there is none. */
static const char *const empties[] = {"null", "none", "nil", "true", "false", "undefined", "(null)"};

/* Options that mean a secret to one command only, or words of one language. */
static const struct flag_row {
    const char *command, *flag;
} flags[] = {
    {"curl", "-u"}, {"curl", "--user"}, {"curl", "-U"}, {"curl", "--proxy-user"}, {"curl", "-b"},
    {"sshpass", "-p"}, {"mysql", "-p"}, {"mysqldump", "-p"}, {"docker", "-p"}, {"podman", "-p"},
    {"redis-cli", "-a"}, {"ldapsearch", "-w"}, {"smbclient", "-U"}, {"machine", "password"},
    {"identified", "by"}, {"http", "-a"}, {"openssl", "-passin"}, {"openssl", "-passout"},
};

/* Keys of event bodies that the program goes back to. */
static const char *const references[] = {
    "path", "dir", "digest", "nonce", "boot_id", "node", "name", "version", "kind", "cause", "gpu",
    "result", "hostname", "address", "uuid", NULL,
};

/* ---- characters ---- */

static bool is_in(enum charset set, char c)
{
    static const char *const more[] = {[ALNUM] = "", [WORD] = "_-", [DOTTED] = "_-.", [UPPER] = "",
                                       [HEX] = "", [PATHLIKE] = "_-/",
                                       [CREDENTIAL] = "_-.~+/="};
    if (set == UPPER)
        return isdigit((unsigned char)c) || isupper((unsigned char)c);
    if (set == HEX)
        return isxdigit((unsigned char)c);
    return isalnum((unsigned char)c) || (c && strchr(more[set], c));
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

static size_t run_of(enum charset set, const char *p, size_t most)
{
    size_t n = 0;
    while (n < most && is_in(set, p[n]))
        n++;
    return n;
}

static bool begins_word(const char *text, const char *p)
{
    return p == text || !(is_in(ALNUM, p[-1]) || p[-1] == '_');
}

/* ---- known values ---- */

static int hex_of(const char *p)
{
    const char digits[3] = {p[0], p[0] ? p[1] : '\0', '\0'};
    return isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1])
               ? (int)strtol(digits, NULL, 16) : -1;
}

/* Length of an escape sequence at p that means c, or 0: \n, \x0a, \u000a. */
static size_t escape_of(const char *p, char c)
{
    static const char letters[] = "n\nt\tr\rb\bf\f";
    for (const char *l = letters; *l; l += 2)
        if (p[1] == l[0] && c == l[1])
            return 2;
    if (p[1] == 'x' && hex_of(p + 2) == (unsigned char)c)
        return 4;
    if (strncmp(p + 1, "u00", 3) == 0 && hex_of(p + 4) == (unsigned char)c)
        return 6;
    return 0;
}

/* Length of the text at p that stands for c, or 0. */
static size_t unit_of(const char *p, char c)
{
    if (tolower((unsigned char)*p) == tolower((unsigned char)c) || (*p == '+' && c == ' ') ||
        (*p == '-' && c == '+') || (*p == '_' && c == '/'))
        return 1;
    if (*p == '%' && hex_of(p + 1) == (unsigned char)c)
        return 3;
    return *p == '\\' ? escape_of(p, c) : 0;
}

/* Quotes and backslashes between two characters of the value are skipped. */
static size_t match_of(const char *text, const char *value)
{
    const char *p = text;
    for (int skipped = 0; *value;) {
        size_t n = unit_of(p, *value);
        if (n) {
            p += n;
            value++;
            skipped = 0;
        } else if (p > text && (*p == '\\' || is_quote(*p)) && skipped++ < 8) {
            p++;
        } else {
            return 0;
        }
    }
    return (size_t)(p - text);
}

static struct span known_at(const struct redact *r, const char *text, const char *p)
{
    (void)text;
    struct span best = {0, 0};
    for (size_t i = 0; r && i < r->n; i++) {
        size_t n = match_of(p, r->known[i]);
        if (n > best.len)
            best.len = n;
    }
    return best;
}

static int add_known(struct redact *r, const char *value, size_t len)
{
    if (len < KNOWN_LEAST)
        return 0;
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 8;
        char **known = realloc(r->known, room * sizeof(*known));
        if (!known)
            return -1;
        r->known = known;
        r->room = room;
    }
    r->known[r->n] = strndup(value, len);
    return r->known[r->n] ? (r->n++, 0) : -1;
}

/* The part of base64 that is the same whatever stands around the value, for each alignment. */
static int add_base64(struct redact *r, const char *secret, size_t len)
{
    unsigned char *in = calloc(1, len + 3), *out = malloc(4 * (len + 5) / 3 + 8);
    int rc = in && out ? 0 : -1;
    for (size_t shift = 0; rc == 0 && shift < 3; shift++) {
        const size_t first = shift ? shift + 1 : 0, end = (shift + len) * 8 / 6;
        memcpy(in + shift, secret, len);
        EVP_EncodeBlock(out, in, (int)(shift + len));
        rc = add_known(r, (char *)out + first, end - first);
        memset(in, 0, shift + 1);
    }
    free(in);
    free(out);
    return rc;
}

static int add_hex(struct redact *r, const char *secret, size_t len)
{
    char *hex = malloc(2 * len + 1);
    for (size_t i = 0; hex && i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)secret[i]);
    int rc = hex ? add_known(r, hex, 2 * len) : -1;
    free(hex);
    return rc;
}

/* With \uXXXX for what is not ASCII. */
static int add_ascii(struct redact *r, const char *secret)
{
    json_t *value = json_string(secret);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    int rc = text && strstr(text, "\\u") ? add_known(r, text + 1, strlen(text) - 2) : 0;
    free(text);
    json_decref(value);
    return rc;
}

/* With %25 for %, which unit_of() cannot tell from a % of the value itself. */
static int add_percent(struct redact *r, const char *secret, size_t len)
{
    size_t n = 0;
    char *text = strchr(secret, '%') ? malloc(3 * len + 1) : NULL;
    for (const char *p = secret; text && *p; p++)
        n += *p == '%' ? (size_t)snprintf(text + n, 4, "%%25") : (size_t)snprintf(text + n, 2, "%c", *p);
    int rc = text ? add_known(r, text, n) : 0;
    free(text);
    return rc;
}

struct redact *redact_create(void)
{
    return calloc(1, sizeof(struct redact));
}

void redact_destroy(struct redact *r)
{
    for (size_t i = 0; r && i < r->n; i++)
        free(r->known[i]);
    if (r)
        free(r->known);
    free(r);
}

int redact_add(struct redact *r, const char *secret)
{
    const size_t len = secret ? strlen(secret) : 0;
    if (len < KNOWN_LEAST)
        return 0;
    return add_known(r, secret, len) < 0 || add_base64(r, secret, len) < 0 ||
                   add_hex(r, secret, len) < 0 || add_ascii(r, secret) < 0 ||
                   add_percent(r, secret, len) < 0 ? -1 : 0;
}

int redact_add_all(struct redact *r, const json_t *values)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)values, name, value)
        if (redact_add(r, json_string_value(value)) < 0)
            return -1;
    return 0;
}

/* ---- where a value ends ---- */

static size_t backslashes_before(const char *start, const char *p)
{
    size_t n = 0;
    while (p - n > start && p[-1 - (ptrdiff_t)n] == '\\')
        n++;
    return n;
}

/* In text that was escaped e times, a quote that closes has 2^e - 1 backslashes, and each pair of
 * backslashes of the value 2^(e+1): `level` is the former. */
static const char *closing_quote(const char *start, char quote, size_t level)
{
    const char *p = start;
    for (; *p; p++)
        if (*p == quote && (quote == '\'' || backslashes_before(start, p) % (2 * (level + 1)) == level))
            break;
    return p;
}

/* Length of the quotes and backslashes at p if the value goes on behind them, as in 'a'"b"; else 0. */
static size_t quote_gap(const char *p)
{
    const size_t n = strspn(p, "\\\"'`"), slashes = strspn(p, "\\");
    return n > slashes && n <= 16 && (is_in(ALNUM, p[n]) || p[n] == '@') ? n : 0;
}

/* Length of the text without any of `stops`, except quotes in its middle. */
static size_t run_until(const char *p, const char *stops)
{
    size_t n = strcspn(p, stops);
    for (size_t gap; (gap = quote_gap(p + n)) > 0;)
        n += gap + strcspn(p + n + gap, stops);
    return n;
}

/* `,` within a value is a part of it; before a space, a quote or another name it is not. */
static bool separates(const char *p)
{
    const char *next = p + 1;
    size_t name = run_of(WORD, next, NAME_MOST);
    return !*next || isspace((unsigned char)*next) || is_quote(*next) || *next == '\\' ||
           strchr(",;)}]&", *next) || (name && (next[name] == '=' || next[name] == ':'));
}

static bool ends_value(const char *p)
{
    if (!*p || isspace((unsigned char)*p) || is_quote(*p) || *p == '<')
        return true;
    if (*p == '\\')
        return is_quote(p[strspn(p, "\\")]);
    return strchr(",;)}]&|", *p) && separates(p);
}

/* From `p` to the end of a value that has no quotes around it. */
static const char *plain_end(const char *p)
{
    if (strncmp(p, REDACTED, strlen(REDACTED)) == 0)
        p += strlen(REDACTED);
    for (size_t n = 1; n > 0; p += n)
        n = ends_value(p) ? quote_gap(p) : 1;
    return p;
}

static const char *quoted_end(const char *start, char quote, size_t level)
{
    const char *end = closing_quote(start, quote, level);
    const char *begin = quote == '\'' || !*end ? end : end - level;
    const size_t gap = quote_gap(begin);
    return gap ? plain_end(begin + gap) : begin;
}

/* The value at p, behind its opening quote if it has one. */
static struct span value_at(const char *p)
{
    const size_t level = strspn(p, "\\");
    if (p[level] != '"' && p[level] != '\'')
        return (struct span){0, (size_t)(plain_end(p) - p)};
    const char *start = p + level + 1;
    return (struct span){level + 1, (size_t)(quoted_end(start, p[level], level) - start)};
}

/* ---- names and values ---- */

/* Lower case, without - _ and ., nor digits at the end; `out` gets the end of a long name. */
static size_t plain_name(char out[NAME_MOST + 1], const char *name, size_t len)
{
    size_t n = 0;
    while (len > 1 && (isdigit((unsigned char)name[len - 1]) || name[len - 1] == '_'))
        len--;
    for (size_t i = len > NAME_MOST ? len - NAME_MOST : 0; i < len; i++)
        if (is_in(ALNUM, name[i]))
            out[n++] = (char)tolower((unsigned char)name[i]);
    out[n] = '\0';
    return n;
}

/* Does a word begin where the last `tail` letters of the name do? */
static bool is_own_word(const char *name, size_t len, size_t tail)
{
    if (len <= tail)
        return true;
    const char *p = name + len - tail;
    return !is_in(ALNUM, p[-1]) || (islower((unsigned char)p[-1]) && isupper((unsigned char)*p));
}

static bool is_vocabulary(const char *plain, size_t n, size_t tail)
{
    for (size_t i = 0; i < ARRAY_LEN(vocabulary); i++) {
        const size_t v = strlen(vocabulary[i]);
        if (n >= tail + v && memcmp(plain + n - tail - v, vocabulary[i], v) == 0)
            return true;
    }
    return false;
}

static const struct name_row *telling(const char *name, size_t len)
{
    char plain[NAME_MOST + 1];
    const size_t n = plain_name(plain, name, len);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const size_t tail = strlen(names[i].end);
        if (n < tail || strcmp(plain + n - tail, names[i].end) != 0)
            continue;
        if ((names[i].flags & END) && !is_own_word(name, len, tail))
            continue;
        return (names[i].flags & NUMBERS) && is_vocabulary(plain, n, tail) ? NULL : &names[i];
    }
    return NULL;
}

bool redact_is_telling(const char *name, size_t len)
{
    return telling(name, len) != NULL;
}

static bool is_word(const char *p, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(p, word, len) == 0;
}

/* $NAME and ${NAME}: refers to a variable. */
static bool is_reference(const char *p, size_t len)
{
    size_t from = len > 2 && p[1] == '{' ? 2 : 1, n = from;
    if (len < 2 || p[0] != '$')
        return false;
    while (n < len && (isupper((unsigned char)p[n]) || p[n] == '_' || isdigit((unsigned char)p[n])))
        n++;
    return n > from && (n == len || (from == 2 && n + 1 == len && p[n] == '}'));
}

/* Is the value of such a name a secret? */
static bool is_secret(const struct name_row *row, const char *p, size_t len)
{
    if (len < row->least || is_reference(p, len))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(empties); i++)
        if (is_word(p, len, empties[i]))
            return false;
    if ((row->flags & NUMBERS) && len < 10 && strspn(p, "0123456789.") >= len)
        return false;
    return !(strcmp(row->end, "pwd") == 0 && *p == '/'); /* PWD=/home/me */
}

/* "Basic " and the like before a credential. */
static size_t scheme_len(const char *p)
{
    static const char *const schemes[] = {"basic ", "bearer ", "token ", "digest ", "negotiate ",
                                          "apikey ", "ntlm ", "aws4-hmac-sha256 "};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(p, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

/* A header without quotes of its own ends with the line, or with the quotes around it. */
static struct span header_value(const char *p)
{
    struct span v = {0, run_until(p, "\r\n\"'\\")};
    if (is_quote(p[strspn(p, "\\")]))
        v = value_at(p);
    const size_t scheme = scheme_len(p + v.lead);
    return scheme < v.len ? (struct span){v.lead + scheme, v.len - scheme} : v;
}

/* After the name: `=`, `: `, `" => "`, `"] = "`; or spaces after an option. NULL: no value. */
static const char *after_name(const char *p, bool option)
{
    const char *q = p + strspn(p, "\"'\\]");
    q += strspn(q, " \t");
    if (strncasecmp(q, "%3D", 3) == 0)
        return q + 3;
    if (*q == '=' || (*q == ':' && q[1] != ':')) {
        q += strspn(q, "=:>");
        return q + strspn(q, " \t");
    }
    if (!option || q == p || (q[-1] != ' ' && *q != ','))
        return NULL;
    q += strspn(q, ", ");
    return strncmp(q, "--", 2) == 0 ? NULL : q;
}

static struct span named_at(const char *text, const char *p)
{
    const struct span none = {0, 0};
    const bool option = *p == '-' && (p == text || !is_in(WORD, p[-1]));
    const size_t len = run_of(DOTTED, p, NAME_MOST);
    const struct name_row *row = len && begins_word(text, p) ? telling(p, len) : NULL;
    const char *value = row ? after_name(p + len, option) : NULL;
    if (!value)
        return none;
    struct span v = (row->flags & HEADER) ? header_value(value) : value_at(value);
    if (!is_secret(row, value + v.lead, v.len))
        return none;
    return (struct span){(size_t)(value - p) + v.lead, v.len};
}

/* ---- other shapes ---- */

/* Quotes within a key are a part of it if it goes on behind them. */
static size_t key_len(const struct key_row *row, const char *p)
{
    size_t n = 0, more = 0;
    for (;;) {
        const size_t run = run_of(row->set, p + n, (size_t)-1), gap = quote_gap(p + n + run);
        more += run;
        n += run;
        if (!gap || !is_in(row->set, p[n + gap]))
            break;
        n += gap;
    }
    return more >= row->least ? n : 0;
}

static struct span key_at(const char *text, const char *p)
{
    for (size_t i = 0; begins_word(text, p) && i < ARRAY_LEN(keys); i++) {
        const size_t n = strlen(keys[i].prefix);
        const size_t more = strncmp(p, keys[i].prefix, n) == 0 ? key_len(&keys[i], p + n) : 0;
        if (more)
            return (struct span){0, n + more};
    }
    return (struct span){0, 0};
}

/* A signed web token: three parts, of which two begin with {" in base64. */
static struct span jwt_at(const char *text, const char *p)
{
    const struct key_row row = {"eyJ", DOTTED, 20};
    const size_t len = begins_word(text, p) && strncmp(p, "eyJ", 3) == 0 ? key_len(&row, p) : 0;
    return (struct span){0, len && memchr(p, '.', len) ? len : 0};
}

/* Letters alone may be prose: "Basic understanding". */
static bool looks_random(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (isdigit((unsigned char)p[i]) || strchr("=+/", p[i]))
            return true;
    return false;
}

static struct span scheme_at(const char *text, const char *p)
{
    static const struct key_row row = {"", CREDENTIAL, 12};
    size_t scheme = begins_word(text, p) ? scheme_len(p) : 0;
    if (!scheme || strncasecmp(p, "token", 5) == 0)
        return (struct span){0, 0};
    const size_t len = key_len(&row, p + scheme);
    return (struct span){scheme, looks_random(p + scheme, len) ? len : 0};
}

static bool is_image_digest(const char *at)
{
    return strncmp(at, "@sha256:", 8) == 0 || strncmp(at, "@sha512:", 8) == 0;
}

/* The last @ of a URL's authority, or NULL. */
static const char *last_at(const char *p, size_t len)
{
    while (len > 0 && p[len - 1] != '@')
        len--;
    return len == 0 || is_image_digest(p + len - 1) ? NULL : p + len - 1;
}

/* USER:PASSWORD@ after "://"; a password may have a slash, a port may not. */
static struct span url_at(const char *text, const char *p)
{
    const struct span none = {0, 0};
    const size_t mark = strncmp(p, "://", 3) == 0 ? 3 : strncmp(p, ":\\/\\/", 5) == 0 ? 5 : 0;
    if (!mark || p == text)
        return none;
    const char *user = p + mark, *at = last_at(user, run_until(user, " \t\r\n\"'<>`"));
    const size_t host = strcspn(user, "/?#@"), name = strcspn(user, ":/?#@");
    if (!at)
        return none;
    if (user[name] != ':') /* the user is a token */
        return (struct span){mark, user + host == at && host >= 16 && looks_random(user, host) ? host : 0};
    const char *secret = user + name + 1;
    const size_t port = strspn(secret, "0123456789");
    if (at <= secret || (port && secret[port] && strchr("/?#", secret[port])))
        return none;
    return (struct span){mark + name + 1, (size_t)(at - secret)};
}

/* user:password@tcp(host:3306)/db */
static struct span dsn_at(const char *text, const char *p)
{
    const size_t user = begins_word(text, p) ? run_of(WORD, p, NAME_MOST) : 0;
    if (!user || p[user] != ':')
        return (struct span){0, 0};
    const size_t end = user + 1 + run_until(p + user + 1, " \t\r\n\"'`");
    for (size_t n = user + 1; n < end; n++)
        if (strncmp(p + n, "@tcp(", 5) == 0 || strncmp(p + n, "@unix(", 6) == 0)
            return (struct span){user + 1, n - user - 1};
    return (struct span){0, 0};
}

/* A private key, up to its last line or the end of the text. */
static struct span pem_at(const char *text, const char *p)
{
    (void)text;
    const char *head = strncmp(p, "-----BEGIN ", 11) == 0 ? strstr(p + 11, "-----") : NULL;
    if (!head || head - p > 60 || !memmem(p, (size_t)(head - p), "PRIVATE KEY", 11))
        return (struct span){0, 0};
    const char *end = strstr(head + 5, "-----END");
    const size_t lead = (size_t)(head - p) + 5;
    return (struct span){lead, end ? (size_t)(end - p) - lead : strlen(p + lead)};
}

/* Does the command stand before p on its line, as a word? */
static bool is_command_line(const char *text, const char *p, const char *command)
{
    const size_t n = strlen(command);
    for (const char *q = p; q > text && p - q < LINE_MOST; q--) {
        if (*q == '\n' && q[-1] != '\\' && strcmp(command, "machine") != 0)
            return false;
        if (strncasecmp(q - 1, command, n) == 0 && begins_word(text, q - 1) && !is_in(WORD, q[n - 1]))
            return true;
    }
    return false;
}

/* Spaces, =, or `", "` after an option; a short one may have none. */
static struct span flag_value(const char *p, bool glued)
{
    const size_t gap = strspn(p, "\"',= ");
    if ((gap == 0 && !glued) || !p[gap] || p[gap] == '\n')
        return (struct span){0, 0};
    const size_t from = gap && is_quote(p[gap - 1]) ? gap - 1 : gap;
    const struct span v = value_at(p + from);
    return (struct span){from + v.lead, v.len};
}

static struct span flag_at(const char *text, const char *p)
{
    if (p == text || is_in(WORD, p[-1]))
        return (struct span){0, 0};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const char *flag = flags[i].flag;
        const size_t n = strlen(flag);
        const int differs = *flag == '-' ? strncmp(p, flag, n) : strncasecmp(p, flag, n);
        if (differs || !is_command_line(text, p, flags[i].command))
            continue;
        const struct span v = flag_value(p + n, n == 2 && *flag == '-');
        if (v.len && !is_reference(p + n + v.lead, v.len))
            return (struct span){n + v.lead, v.len};
    }
    return (struct span){0, 0};
}

/* ---- text ---- */

typedef struct span (*finder_fn)(const char *text, const char *p);

static const finder_fn finders[] = {pem_at, key_at, jwt_at, url_at, dsn_at, flag_at, named_at, scheme_at};

static struct span shape_at(const struct redact *r, const char *text, const char *p)
{
    struct span s = {0, 0};
    (void)r;
    for (size_t i = 0; s.len == 0 && i < ARRAY_LEN(finders); i++)
        s = finders[i](text, p);
    return s;
}

/* Copies text, without the secrets that `find` finds. NULL: out of memory. */
static char *remove_secrets(const struct redact *r, const char *text,
                            struct span (*find)(const struct redact *, const char *, const char *))
{
    struct buf out = {0};
    const char *copied = text;
    int rc = 0;
    for (const char *p = text; *p && rc == 0;) {
        const struct span s = find(r, text, p);
        if (s.len == 0) {
            p++;
            continue;
        }
        rc = buf_append(&out, copied, (size_t)(p - copied) + s.lead) < 0 ||
             buf_append(&out, REDACTED, strlen(REDACTED)) < 0 ? -1 : 0;
        copied = p += s.lead + s.len;
    }
    if (rc < 0 || buf_append(&out, copied, strlen(copied)) < 0) {
        buf_fini(&out);
        return NULL;
    }
    return buf_take(&out);
}

char *redact_text(const struct redact *r, const char *text, size_t *size)
{
    char *first = remove_secrets(r, text, known_at);
    char *clean = first ? remove_secrets(NULL, first, shape_at) : NULL;
    free(first);
    if (clean && size)
        *size = strlen(clean);
    return clean;
}

char *redact_line(const void *known, const char *text)
{
    return redact_text(known, text, NULL);
}

/* ---- trees ---- */

struct tree {
    const struct redact *known;
    const char *const   *keep;
};

static json_t *clean_value(const struct tree *t, const char *key, json_t *value);

static bool is_kept(const struct tree *t, const char *key)
{
    for (const char *const *k = t->keep; k && *k; k++)
        if (strcmp(*k, key) == 0)
            return true;
    return false;
}

static json_t *clean_text(const struct tree *t, const char *key, const char *text)
{
    const struct name_row *row = key ? telling(key, strlen(key)) : NULL;
    if (row && is_secret(row, text, strlen(text)))
        return json_string(REDACTED);
    char *clean = redact_text(t->known, text, NULL);
    json_t *out = clean ? json_string(clean) : NULL;
    free(clean);
    return out;
}

/* {"name": "HF_TOKEN", "value": X}: the name is the key of the value. */
static json_t *clean_object(const struct tree *t, json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name")), *key;
    json_t *value, *out = json_object();
    json_object_foreach (object, key, value) {
        const char *as = name && strcmp(key, "value") == 0 ? name : key;
        json_t *clean = is_kept(t, key) ? json_incref(value) : clean_value(t, as, value);
        if (!clean || json_object_set_new(out, key, clean) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* The option that an argument belongs to: the one before it, if it has no value yet. */
static const char *option_before(const json_t *array, size_t i)
{
    const char *before = i ? json_string_value(json_array_get(array, i - 1)) : NULL;
    return before && *before == '-' && run_of(DOTTED, before, (size_t)-1) == strlen(before) ? before : NULL;
}

/* Lines of output may be the elements: a private key then goes on from one to the next. */
static json_t *clean_array(const struct tree *t, const char *key, json_t *array)
{
    size_t i;
    json_t *value, *out = json_array();
    bool inside = false;
    json_array_foreach (array, i, value) {
        const char *option = option_before(array, i), *text = json_string_value(value);
        inside = inside && text && !strstr(text, "-----END");
        json_t *clean = inside ? json_string(REDACTED) : clean_value(t, option ? option : key, value);
        const char *begin = text ? strstr(text, "-----BEGIN ") : NULL;
        inside = inside || (begin && pem_at(text, begin).lead && !strstr(begin, "-----END"));
        if (!clean || json_array_append_new(out, clean) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *clean_value(const struct tree *t, const char *key, json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return clean_text(t, key, json_string_value(value));
    case JSON_OBJECT:
        return clean_object(t, value);
    case JSON_ARRAY:
        return clean_array(t, key, value);
    default:
        return json_incref(value);
    }
}

json_t *redact_tree(const struct redact *r, const json_t *value, const char *const keep[])
{
    const struct tree t = {r, keep};
    return value ? clean_value(&t, NULL, (json_t *)(uintptr_t)value) : NULL;
}

json_t *redact_event(const struct redact *r, const json_t *body)
{
    return redact_tree(r, body, references);
}
