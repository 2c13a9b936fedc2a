/* SPDX-License-Identifier: Apache-2.0 */
/* login.c - see login.h */
#include "controller/ssh/login.h"

#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/err.h"

enum { SILENT_MS = 10000 }; /* without acknowledgements for so long a connection is dead */

/* ---- the deadline ---- */

static char deadline_timer_text[400];
static int deadline_exit = LOGIN_EXIT_UNREACHED;

static void deadline_came(int signo)
{
    (void)signo;
    if (write(STDERR_FILENO, deadline_timer_text, strlen(deadline_timer_text)) < 0)
        _exit(deadline_exit);
    _exit(deadline_exit);
}

void login_deadline(const char *host, unsigned seconds)
{
    if (seconds) {
        snprintf(deadline_timer_text, sizeof(deadline_timer_text),
                 "jobctl-ssh: %.200s did not answer within "
                 "%u s\n", host, seconds);
        signal(SIGALRM, deadline_came);
    }
    alarm(seconds);
}

/* ---- options ---- */

/* libssh turns ProxyJump into a call of ssh, which would prompt, and would ignore a changed HOME
 * when it looks for its files. */
static int tame_jump(ssh_session s, const char *config, struct err *err)
{
    char *command = NULL, *ours = NULL;
    int rc = 0;
    if (ssh_options_get(s, SSH_OPTIONS_PROXYCOMMAND, &command) != SSH_OK || !command)
        return 0;
    if (strncmp(command, "ssh ", 4) == 0 && strstr(command, " -W ")) {
        if (asprintf(&ours, "ssh %s%s%s -o BatchMode=yes -o StrictHostKeyChecking=yes %s",
                     config ? "-F '" : "", config ? config : "", config ? "'" : "",
                     command + 4) < 0 ||
            ssh_options_set(s, SSH_OPTIONS_PROXYCOMMAND, ours) != SSH_OK)
            rc = err_set(err, ERR_MEMORY, "out of memory for a jump host");
        free(ours);
    }
    ssh_string_free_char(command);
    return rc;
}

/* The user of USER@HOST comes before that of the configuration. */
static int set_user(ssh_session s, const char *host, struct err *err)
{
    const char *at = strrchr(host, '@');
    char *user = at ? strndup(host, (size_t)(at - host)) : NULL;
    const bool ok = !user || ssh_options_set(s, SSH_OPTIONS_USER, user) == SSH_OK;
    free(user);
    return ok ? 0 : err_set(err, ERR_USAGE, "'%.100s' has no valid user", host);
}

static int set_options(ssh_session s, const char *host, struct err *err)
{
    char dir[PATH_MAX], config[PATH_MAX + 16];
    const char *home = getenv("HOME");
    const int no = 0, yes = 1;
    const long limit = LOGIN_CONNECT_S;
    if (!home || home[0] != '/')
        return err_set(err, ERR_USAGE, "HOME is not set; it is needed to find .ssh/config");
    snprintf(dir, sizeof(dir), "%s/.ssh", home);
    snprintf(config, sizeof(config), "%s/config", dir);
    bool own = access(config, R_OK) == 0 && !strchr(config, '\'');
    if (ssh_options_set(s, SSH_OPTIONS_PROCESS_CONFIG, &no) != SSH_OK ||
        ssh_options_set(s, SSH_OPTIONS_SSH_DIR, dir) != SSH_OK ||
        ssh_options_set(s, SSH_OPTIONS_TIMEOUT, &limit) != SSH_OK ||    /* ConnectTimeout wins */
        ssh_options_set(s, SSH_OPTIONS_HOST, host) != SSH_OK)
        return err_set(err, ERR_USAGE, "'%.100s' is not a valid host name", host);
    if (own && ssh_options_parse_config(s, config) != SSH_OK)
        return err_set(err, ERR_USAGE, "%s: %s", config, ssh_get_error(s));
    if (access("/etc/ssh/ssh_config", R_OK) == 0)
        ssh_options_parse_config(s, "/etc/ssh/ssh_config");
    ssh_options_set(s, SSH_OPTIONS_NODELAY, &yes);
    if (set_user(s, host, err) < 0)
        return -1;
    return tame_jump(s, own ? config : NULL, err);
}

/* ---- the name ---- */

static enum login_name known_to_resolver(const char *host, const char *name, char *text, size_t size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int rc = getaddrinfo(name, NULL, &hints, &list);
    if (rc == 0)
        freeaddrinfo(list);
    if (rc == 0)
        return LOGIN_NAME_KNOWN;
    const bool same = strcmp(host, name) == 0, none = rc == EAI_NONAME || rc == EAI_NODATA;
    snprintf(text, size, "%s%s%s%s: %s", host, same ? "" : " (", same ? "" : name, same ? "" : ")",
             none ? "host not found" : gai_strerror(rc));
    return none ? LOGIN_NAME_UNKNOWN : LOGIN_NAME_UNSURE;
}

static bool has_jump(ssh_session s)
{
    char *command = NULL;
    const bool jump = ssh_options_get(s, SSH_OPTIONS_PROXYCOMMAND, &command) == SSH_OK && command;
    ssh_string_free_char(command);
    return jump;
}

/* With the options of the host. */
static enum login_name name_of(ssh_session s, const char *host, char *text, size_t size)
{
    char *name = NULL;
    ssh_options_get(s, SSH_OPTIONS_HOST, &name);
    enum login_name known = known_to_resolver(host, name ? name : host, text, size);
    ssh_string_free_char(name);
    return known != LOGIN_NAME_KNOWN && has_jump(s) ? LOGIN_NAME_JUMP : known;
}

static int check_name(ssh_session s, const char *host, struct err *err)
{
    char text[400] = "";
    return name_of(s, host, text, sizeof(text)) == LOGIN_NAME_UNKNOWN ? err_set(err, ERR_NOT_FOUND, "%s", text) : 0;
}

enum login_name login_look_up(const char *host, char *text, size_t size)
{
    struct err err = {0};
    ssh_session s = ssh_new();
    enum login_name known = LOGIN_NAME_UNSURE;
    text[0] = 0;
    if (s && set_options(s, host, &err) == 0)
        known = name_of(s, host, text, size);
    else
        snprintf(text, size, "%s: %s", host, s ? err.text : "out of memory for a session");
    ssh_free(s);
    return known;
}

/* Without these options a vanished machine is noticed only after a quarter of an hour. */
static void watch_connection(ssh_session s)
{
    const int fd = ssh_get_fd(s), yes = 1, idle = 3, interval = 2, count = 3, limit = SILENT_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/* ---- verify the host key ---- */

static void fingerprint(char *out, size_t size, ssh_session s)
{
    ssh_key key = NULL;
    unsigned char *hash = NULL;
    size_t length = 0;
    snprintf(out, size, "unknown");
    if (ssh_get_server_publickey(s, &key) != SSH_OK)
        return;
    if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &length) == SSH_OK) {
        char *text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, length);
        if (text)
            snprintf(out, size, "%s %s", ssh_key_type_to_char(ssh_key_type(key)), text);
        ssh_string_free_char(text);
    }
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
}

static int check_host(ssh_session s, const char *host, struct err *err)
{
    char print[120];
    enum ssh_known_hosts_e known = ssh_session_is_known_server(s);
    if (known == SSH_KNOWN_HOSTS_OK)
        return 0;
    fingerprint(print, sizeof(print), s);
    if (known == SSH_KNOWN_HOSTS_CHANGED)
        return err_set(err, ERR_USAGE, "the host key of %s has CHANGED to %s. This may be a "
                       "man-in-the-middle attack, or the machine was reinstalled. In that case run "
                       "`ssh-keygen -R %s` and `ssh %s` once", host, print, host, host);
    if (known == SSH_KNOWN_HOSTS_OTHER)
        return err_set(err, ERR_USAGE, "the host key of %s has a different type (%s) from the one in "
                       "known_hosts; run `ssh %s` once and compare", host, print, host);
    if (known == SSH_KNOWN_HOSTS_ERROR)
        return err_set(err, ERR_USAGE, "cannot read known_hosts: %s", ssh_get_error(s));
    return err_set(err, ERR_USAGE, "%s is not in known_hosts; run `ssh %s` once, compare the host "
                   "key (%s) and accept it", host, host, print);
}

static int let_in(ssh_session s, const char *host, struct err *err)
{
    char *user = NULL;
    int rc = ssh_userauth_publickey_auto(s, NULL, NULL);
    if (rc == SSH_AUTH_SUCCESS)
        return 0;
    if (!ssh_is_connected(s))
        return err_set(err, ERR_SYSTEM, "%s closed the connection: %s", host, ssh_get_error(s));
    ssh_options_get(s, SSH_OPTIONS_USER, &user);
    err_set(err, ERR_CONFLICT, "%s rejected the keys of %s%s; `ssh -o BatchMode=yes %s` must work "
            "without a prompt; add a key with a passphrase to ssh-agent", host,
            user ? user : "this user", getenv("SSH_AUTH_SOCK") ? "" : " (no ssh-agent)", host);
    ssh_string_free_char(user);
    return -1;
}

static int connect_to(ssh_session s, const char *host, struct err *err)
{
    unsigned port = 22;
    if (ssh_connect(s) == SSH_OK)
        return 0;
    ssh_options_get_port(s, &port);
    if (!has_jump(s) && strstr(ssh_get_error(s), "refused"))
        return err_set(err, ERR_SYSTEM, "host %s refused the connection on port %u", host, port);
    return err_set(err, ERR_SYSTEM, "%s cannot be reached: %s", host, ssh_get_error(s));
}

ssh_session login_open(const char *host, struct err *err)
{
    ssh_session s = ssh_new();
    if (!s) {
        err_set(err, ERR_MEMORY, "out of memory for a session");
        return NULL;
    }
    login_deadline(host, LOGIN_STEP_S);
    if (set_options(s, host, err) < 0 || check_name(s, host, err) < 0 || connect_to(s, host, err) < 0)
        goto fail;
    watch_connection(s);
    if (check_host(s, host, err) < 0 || let_in(s, host, err) < 0)
        goto fail;
    deadline_exit = LOGIN_EXIT_LATE;
    return s;
fail:
    if (ssh_is_connected(s))
        ssh_disconnect(s);
    ssh_free(s);
    return NULL;
}
