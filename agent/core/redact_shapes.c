/* SPDX-License-Identifier: Apache-2.0 */
/* redact_shapes.c - see redact_shapes.h
 *
 * Each row of `finders` looks at one position and returns the span of a secret that begins there or, with a
 * lead to keep, a little later.
 */
#include "agent/core/redact_shapes.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "agent/core/redact.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { NAME_MOST = 80, LINE_MOST = 500 };

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
    END = 1,       /* a separate word: DB_PASS and dbPass, not compass */
    NUMBERS = 2,   /* a number after it stays: token: 512 */
    HEADER = 4,    /* the rest of the line, after the scheme */
};

/* Names of secrets end like this, in upper or lower case, with - and _ left out, perhaps with digits after them. */
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

/* Special tokens of a vocabulary are not secrets. */
static const char *const vocabulary[] = {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image",
                                         "special", "last", "first", "next", "per"};

/* Values that mean that there is none. */
static const char *const empties[] = {"null", "none", "nil", "true", "false", "undefined", "(null)"};

/* Options that mean a secret only to one command, or words of one language. */
static const struct flag_row {
    const char *command, *flag;
} flags[] = {
    {"curl", "-u"}, {"curl", "--user"}, {"curl", "-U"}, {"curl", "--proxy-user"}, {"curl", "-b"},
    {"sshpass", "-p"}, {"mysql", "-p"}, {"mysqldump", "-p"}, {"docker", "-p"}, {"podman", "-p"},
    {"redis-cli", "-a"}, {"ldapsearch", "-w"}, {"smbclient", "-U"}, {"machine", "password"},
    {"identified", "by"}, {"http", "-a"}, {"openssl", "-passin"}, {"openssl", "-passout"},
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

/* Length of the quotes and backslashes at p if the value continues after them, as in 'a'"b"; else 0. */
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
static struct redact_span value_at(const char *p)
{
    const size_t level = strspn(p, "\\");
    if (p[level] != '"' && p[level] != '\'')
        return (struct redact_span){0, (size_t)(plain_end(p) - p)};
    const char *start = p + level + 1;
    return (struct redact_span){level + 1, (size_t)(quoted_end(start, p[level], level) - start)};
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

/* An unquoted header ends with the line, or with the quotes around it. */
static struct redact_span header_value(const char *p)
{
    struct redact_span v = {0, run_until(p, "\r\n\"'\\")};
    if (is_quote(p[strspn(p, "\\")]))
        v = value_at(p);
    const size_t scheme = scheme_len(p + v.lead);
    return scheme < v.len ? (struct redact_span){v.lead + scheme, v.len - scheme} : v;
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

static struct redact_span named_at(const char *text, const char *p)
{
    const struct redact_span none = {0, 0};
    const bool option = *p == '-' && (p == text || !is_in(WORD, p[-1]));
    const size_t len = run_of(DOTTED, p, NAME_MOST);
    const struct name_row *row = len && begins_word(text, p) ? telling(p, len) : NULL;
    const char *value = row ? after_name(p + len, option) : NULL;
    if (!value)
        return none;
    struct redact_span v = (row->flags & HEADER) ? header_value(value) : value_at(value);
    if (!is_secret(row, value + v.lead, v.len))
        return none;
    return (struct redact_span){(size_t)(value - p) + v.lead, v.len};
}

/* ---- other shapes ---- */

/* Quotes within a key belong to it if the key continues after them. */
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

static struct redact_span key_at(const char *text, const char *p)
{
    for (size_t i = 0; begins_word(text, p) && i < ARRAY_LEN(keys); i++) {
        const size_t n = strlen(keys[i].prefix);
        const size_t more = strncmp(p, keys[i].prefix, n) == 0 ? key_len(&keys[i], p + n) : 0;
        if (more)
            return (struct redact_span){0, n + more};
    }
    return (struct redact_span){0, 0};
}

/* A signed web token: three parts, of which two begin with {" in base64. */
static struct redact_span jwt_at(const char *text, const char *p)
{
    const struct key_row row = {"eyJ", DOTTED, 20};
    const size_t len = begins_word(text, p) && strncmp(p, "eyJ", 3) == 0 ? key_len(&row, p) : 0;
    return (struct redact_span){0, len && memchr(p, '.', len) ? len : 0};
}

/* Letters alone may be prose: "Basic understanding". */
static bool looks_random(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (isdigit((unsigned char)p[i]) || strchr("=+/", p[i]))
            return true;
    return false;
}

static struct redact_span scheme_at(const char *text, const char *p)
{
    static const struct key_row row = {"", CREDENTIAL, 12};
    size_t scheme = begins_word(text, p) ? scheme_len(p) : 0;
    if (!scheme || strncasecmp(p, "token", 5) == 0)
        return (struct redact_span){0, 0};
    const size_t len = key_len(&row, p + scheme);
    return (struct redact_span){scheme, looks_random(p + scheme, len) ? len : 0};
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
static struct redact_span url_at(const char *text, const char *p)
{
    const struct redact_span none = {0, 0};
    const size_t mark = strncmp(p, "://", 3) == 0 ? 3 : strncmp(p, ":\\/\\/", 5) == 0 ? 5 : 0;
    if (!mark || p == text)
        return none;
    const char *user = p + mark, *at = last_at(user, run_until(user, " \t\r\n\"'<>`"));
    const size_t host = strcspn(user, "/?#@"), name = strcspn(user, ":/?#@");
    if (!at)
        return none;
    if (user[name] != ':') /* the user is a token */
        return (struct redact_span){mark, user + host == at && host >= 16 && looks_random(user, host) ? host : 0};
    const char *secret = user + name + 1;
    const size_t port = strspn(secret, "0123456789");
    if (at <= secret || (port && secret[port] && strchr("/?#", secret[port])))
        return none;
    return (struct redact_span){mark + name + 1, (size_t)(at - secret)};
}

/* user:password@tcp(host:3306)/db */
static struct redact_span dsn_at(const char *text, const char *p)
{
    const size_t user = begins_word(text, p) ? run_of(WORD, p, NAME_MOST) : 0;
    if (!user || p[user] != ':')
        return (struct redact_span){0, 0};
    const size_t end = user + 1 + run_until(p + user + 1, " \t\r\n\"'`");
    for (size_t n = user + 1; n < end; n++)
        if (strncmp(p + n, "@tcp(", 5) == 0 || strncmp(p + n, "@unix(", 6) == 0)
            return (struct redact_span){user + 1, n - user - 1};
    return (struct redact_span){0, 0};
}

/* A private key, up to its last line or the end of the text. */
static struct redact_span pem_at(const char *text, const char *p)
{
    (void)text;
    const char *head = strncmp(p, "-----BEGIN ", 11) == 0 ? strstr(p + 11, "-----") : NULL;
    if (!head || head - p > 60 || !memmem(p, (size_t)(head - p), "PRIVATE KEY", 11))
        return (struct redact_span){0, 0};
    const char *end = strstr(head + 5, "-----END");
    const size_t lead = (size_t)(head - p) + 5;
    return (struct redact_span){lead, end ? (size_t)(end - p) - lead : strlen(p + lead)};
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
static struct redact_span flag_value(const char *p, bool glued)
{
    const size_t gap = strspn(p, "\"',= ");
    if ((gap == 0 && !glued) || !p[gap] || p[gap] == '\n')
        return (struct redact_span){0, 0};
    const size_t from = gap && is_quote(p[gap - 1]) ? gap - 1 : gap;
    const struct redact_span v = value_at(p + from);
    return (struct redact_span){from + v.lead, v.len};
}

static struct redact_span flag_at(const char *text, const char *p)
{
    if (p == text || is_in(WORD, p[-1]))
        return (struct redact_span){0, 0};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const char *flag = flags[i].flag;
        const size_t n = strlen(flag);
        const int differs = *flag == '-' ? strncmp(p, flag, n) : strncasecmp(p, flag, n);
        if (differs || !is_command_line(text, p, flags[i].command))
            continue;
        const struct redact_span v = flag_value(p + n, n == 2 && *flag == '-');
        if (v.len && !is_reference(p + n + v.lead, v.len))
            return (struct redact_span){n + v.lead, v.len};
    }
    return (struct redact_span){0, 0};
}

/* ---- all of them ---- */

typedef struct redact_span (*finder_fn)(const char *text, const char *p);

static const finder_fn finders[] = {pem_at, key_at, jwt_at, url_at, dsn_at, flag_at, named_at, scheme_at};

struct redact_span redact_shape_at(const char *text, const char *p)
{
    struct redact_span s = {0, 0};
    for (size_t i = 0; s.len == 0 && i < ARRAY_LEN(finders); i++)
        s = finders[i](text, p);
    return s;
}

bool redact_shape_is_value(const char *key, const char *value)
{
    const struct name_row *row = telling(key, strlen(key));
    return row && is_secret(row, value, strlen(value));
}

bool redact_shape_opens(const char *line)
{
    const char *begin = strstr(line, "-----BEGIN ");
    return begin && pem_at(line, begin).lead && !strstr(begin, "-----END");
}

bool redact_shape_is_option(const char *word)
{
    return *word == '-' && run_of(DOTTED, word, (size_t)-1) == strlen(word);
}
