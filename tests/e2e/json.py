# SPDX-License-Identifier: Apache-2.0
# json.py - values of JSON on standard input, for scripts (see wait.sh, where the shell has names for them)
#
#   get PATH...                  the values at PATHs (job.state, attempts.0.nodes.-1.name), on one line
#   each [FILTER...] [PATH...]   of each event or line that passes all FILTERs: itself, or the values at PATHs
#   last [FILTER...] [PATH...]   of the newest one
#   holds CONDITION              is the Python CONDITION true of the document, `o`?
#
# `each` and `last` read an answer with "events", or one JSON object a line; a line that is not whole yet is
# skipped.  FILTER is KEY=VALUE, or KEY~TEXT: the value has TEXT.  A KEY that an event lacks is taken from its
# body.  Numbers are printed with the digits that they were written with.  Exit 1: no such value, or not true.
import json
import re
import sys


def text(value):
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(not isinstance(v, (dict, list)) for v in value):
        return " ".join(map(text, value))
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def load(source):
    return json.loads(source, parse_float=str)


def at(value, path):
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)]
        else:
            value = value[key] if key in value else (value.get("body") or {})[key]
    return value


def passes(item, key, how, wanted):
    found = [part[key] for part in (item, item.get("body") or {}) if key in part]
    return any(text(f) == wanted if how == "=" else wanted in text(f) for f in found)


def items(source):
    lines = source.splitlines()
    if len(lines) == 1 and '"events":' in source:
        document = load(source)
        if "events" in document:
            return document["events"]
    whole = []
    for line in lines:
        try:
            whole.append(load(line))
        except ValueError:
            pass
    return [item for item in whole if isinstance(item, dict)]


def select(source, arguments):
    rules = [re.match(r"(\w+)([=~])(.*)$", a, re.S) for a in arguments]
    paths = [a for a, rule in zip(arguments, rules) if not rule]
    for item in items(source):
        if all(passes(item, *rule.groups()) for rule in rules if rule):
            try:
                yield " ".join(text(at(item, p)) for p in paths) if paths else text(item)
            except (KeyError, TypeError):
                pass


def main(verb, *arguments):
    source = sys.stdin.read()
    if verb == "get":
        print(*(text(at(load(source), path)) for path in arguments))
    elif verb == "holds":
        o = json.loads(source)
        assert eval(arguments[0], {"o": o}), source
    else:
        found = list(select(source, arguments))
        assert found, "nothing passes " + " ".join(arguments)
        print("\n".join(found if verb == "each" else found[-1:]))


try:
    main(*sys.argv[1:])
except (AssertionError, KeyError, IndexError, TypeError, ValueError) as e:
    sys.exit("json.py %s: %s: %s" % (" ".join(sys.argv[1:]), type(e).__name__, e))
