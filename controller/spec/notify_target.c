/* SPDX-License-Identifier: Apache-2.0 */
/* notify_target.c - see notify_target.h */
#include "controller/spec/notify_target.h"

#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/notify_events.h"
#include "controller/spec/spec_rules.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { TEXT_MAX = 2000, RECIPIENTS = 20 };

typedef int (*take_fn)(json_t *target, const struct yaml_node *n, struct err *err);

static bool is_one_of(const char *word, const char *const list[])
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

/* A text of one line. */
static int take_text(json_t *target, const struct yaml_node *n, struct err *err)
{
    if (n->kind != YAML_SCALAR || !n->text[0] || strlen(n->text) > TEXT_MAX)
        return err_set(err, ERR_USAGE, "expected a text");
    for (const char *p = n->text; *p; p++)
        if ((unsigned char)*p < ' ' && strcmp(n->key, "command") != 0)
            return err_set(err, ERR_USAGE, "expected one line");
    return json_object_set_new(target, n->key, json_text(n->text));
}

static int take_url(json_t *target, const struct yaml_node *n, const char *const schemes[], struct err *err)
{
    if (take_text(target, n, err) < 0)
        return -1;
    for (; *schemes; schemes++)
        if (strncmp(n->text, *schemes, strlen(*schemes)) == 0)
            return 0;
    return strncmp(n->text, "${", 2) == 0 ? 0 : err_set(err, ERR_USAGE, "expected a URL, or ${NAME} of a secret");
}

static int take_webhook(json_t *target, const struct yaml_node *n, struct err *err)
{
    static const char *const schemes[] = { "https://", "http://", NULL };
    return take_url(target, n, schemes, err);
}

static int take_smtp(json_t *target, const struct yaml_node *n, struct err *err)
{
    static const char *const schemes[] = { "smtps://", "smtp://", NULL };
    return take_url(target, n, schemes, err);
}

/* So that config.yaml can be shown to others. */
static int take_password(json_t *target, const struct yaml_node *n, struct err *err)
{
    if (take_text(target, n, err) < 0)
        return -1;
    if (strncmp(n->text, "${", 2) != 0 || n->text[strlen(n->text) - 1] != '}')
        return err_set(err, ERR_USAGE, "expected the name of a secret, such as ${MAIL_PASSWORD}, not the password");
    return 0;
}

static int take_format(json_t *target, const struct yaml_node *n, struct err *err)
{
    static const char *const formats[] = { "json", "slack", "discord", "feishu", "dingtalk", NULL };
    if (take_text(target, n, err) == 0 && is_one_of(n->text, formats))
        return 0;
    return err_set(err, ERR_USAGE, "expected json, slack, discord, feishu or dingtalk");
}

static int add_address(json_t *list, const struct yaml_node *n, struct err *err)
{
    const char *at = n->kind == YAML_SCALAR ? strchr(n->text, '@') : NULL;
    const bool local = n->kind == YAML_SCALAR && n->text[0] && !at;     /* of this machine */
    if ((!at && !local) || strpbrk(n->text, " \t\r\n<>,;\"") || n->text[0] == '-' || strlen(n->text) > 254)
        return err_set(err, ERR_USAGE, "expected an address such as me@example.org");
    return json_array_append_new(list, json_text(n->text));
}

static int take_email(json_t *target, const struct yaml_node *n, struct err *err)
{
    json_t *list = json_array();
    int rc = n->kind == YAML_LIST && (n->count < 1 || n->count > RECIPIENTS)
                 ? err_set(err, ERR_USAGE, "expected 1 to %d addresses", RECIPIENTS) : 0;
    if (rc == 0 && n->kind != YAML_LIST)
        rc = add_address(list, n, err);
    for (const struct yaml_node *one = n->kind == YAML_LIST ? n->first : NULL; rc == 0 && one; one = one->next)
        rc = add_address(list, one, err);
    return rc == 0 ? json_object_set_new(target, n->key, list) : (json_decref(list), -1);
}

static int take_from(json_t *target, const struct yaml_node *n, struct err *err)
{
    json_t *list = json_array();
    int rc = add_address(list, n, err);
    if (rc == 0)
        rc = json_object_set(target, n->key, json_array_get(list, 0));
    json_decref(list);
    return rc;
}

static int take_on(json_t *target, const struct yaml_node *n, struct err *err)
{
    json_t *list = json_array();
    int bad = n->kind != YAML_LIST || n->count == 0;
    for (const struct yaml_node *one = bad ? NULL : n->first; one; one = one->next) {
        bad |= one->kind != YAML_SCALAR || !notify_events_has(one->text);
        json_array_append_new(list, json_text(one->kind == YAML_SCALAR ? one->text : ""));
    }
    if (!bad)
        return json_object_set_new(target, n->key, list);
    json_decref(list);
    return err_set(err, ERR_USAGE, "expected a list of " NOTIFY_EVENTS);
}

static const struct {
    const char *name, *kind;    /* the kind of target that has it; NULL: all */
    take_fn     take;
} keys[] = {
    { "webhook", "webhook", take_webhook }, { "format", "webhook", take_format },  { "email", "email", take_email },
    { "from", "email", take_from },         { "smtp", "email", take_smtp },        { "user", "email", take_text },
    { "password", "email", take_password }, { "command", "command", take_text },   { "on", NULL, take_on },
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static int unknown(const char *key, struct err *err)
{
    for (int k = 0; k < KEYS; k++)
        if (spec_distance(key, keys[k].name) <= 2)
            return err_set(err, ERR_USAGE, "unknown key \"%.60s\"; did you mean %s?", key, keys[k].name);
    return err_set(err, ERR_USAGE, "unknown key \"%.60s\"; expected webhook, format, email, from, smtp, user, "
                   "password, command or on", key);
}

static int take_key(json_t *target, const struct yaml_node *n, struct yaml_mark *at, struct err *err)
{
    int k = 0;
    while (k < KEYS && strcmp(keys[k].name, n->key) != 0)
        k++;
    *at = k < KEYS ? n->at : n->key_at;
    if (k == KEYS)
        return unknown(n->key, err);
    return keys[k].take(target, n, err) == 0 ? 0 : err_prefix(err, "%s: ", n->key);
}

/* One kind, and no key of another. */
static int check_kind(json_t *target, const struct yaml_node *node, struct yaml_mark *at, struct err *err)
{
    const int n = (json_object_get(target, "webhook") != NULL) + (json_object_get(target, "email") != NULL) +
                  (json_object_get(target, "command") != NULL);
    if (n != 1)
        return err_set(err, ERR_USAGE, "expected one of webhook, email and command");
    for (const struct yaml_node *e = node->first; e; e = e->next)
        for (int k = 0; k < KEYS; k++)
            if (strcmp(keys[k].name, e->key) == 0 && keys[k].kind && !json_object_get(target, keys[k].kind)) {
                *at = e->key_at;
                return err_set(err, ERR_USAGE, "%s is for targets with %s", e->key, keys[k].kind);
            }
    return 0;
}

static int fill(json_t *target, const struct yaml_node *node, struct yaml_mark *at, struct err *err)
{
    for (const struct yaml_node *n = node->first; n; n = n->next)
        if (take_key(target, n, at, err) < 0)
            return -1;
    *at = node->at;
    return check_kind(target, node, at, err);
}

int notify_target_parse(json_t *targets, const struct yaml_node *node, struct yaml_mark *at, struct err *err)
{
    json_t *target = json_make("{s:s, s:[s, s]}", "name", node->key, "on", "done", "failed");
    int rc = -1;
    *at = node->key_at;
    if (spec_name_check(node->key, err) == 0) {
        *at = node->at;
        rc = node->kind == YAML_MAP ? fill(target, node, at, err)
                                    : err_set(err, ERR_USAGE, "expected keys such as {webhook: \"${SLACK_URL}\"}");
    }
    if (rc == 0)
        return json_array_append_new(targets, target);
    json_decref(target);
    return err_prefix(err, "notify.%.60s: ", node->key);
}

const json_t *notify_target_find(const json_t *targets, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach (targets, i, one)
        if (strcmp(field_text(one, "name"), name) == 0)
            return one;
    return NULL;
}
