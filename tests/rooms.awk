# SPDX-License-Identifier: Apache-2.0
# rooms.awk - tests/rooms.txt as arrays, for the guards (tests/check_*.sh) and the picture (tests/draw_rooms.sh)

function fail(text) { print text > "/dev/stderr"; bad = 1 }

function folder_of(path) { return path ~ /\// ? substr(path, 1, length(path) - length(name_of(path)) - 1) : "" }
function name_of(path) { sub(/.*\//, "", path); return path }
function noun_of(path) { path = name_of(path); sub(/\..*/, "", path); return path }
function top_of(path) { sub(/\/.*/, "", path); return path }
# "agent/os/log.avx2.o" is an object of "agent/os/log".
function stem_of(path) { return folder_of(path) "/" noun_of(path) }

# How many things KIND has seen: none is an error, for a guard that finds nothing to check guards nothing.
function some(count, kind) { if (!count) fail("found no " kind ": nothing was checked") }

# A use of an exception or a rule is noted in used[KIND, KEY]; one without a use is an error.
function all_used(kind, keys, why,   key) {
    for (key in keys) if (!((kind, key) in used)) fail("tests/rooms.txt: " kind " " key " " why)
}

function rest_of(line, fields,   i) {
    for (i = 0; i < fields; i++) sub(/^[ \t]*[^ \t]+[ \t]*/, "", line)
    return line
}
function words_into(keys, line,   n, word, i) {
    n = split(line, word)
    for (i = 1; i <= n; i++) keys[word[i]] = 1
}

# rooms, room[1..rooms], rank[PATH], says[PATH], uses[PATH] (entries), program[PATH]; columns, column[1..];
# only[HEADER] (files), pure[NOUN], borrows[FUNCTION], safe[ROOM], loop[ROOM]; opens, pathed (of files), exact, impure, cache,
# apart, crowded, prefix, twice: [KEY] = reason.
function read_rooms(file,   line, word, n, at) {
    while ((getline line < file) > 0) {
        if (line ~ /^[ \t]*(#|$)/) continue
        n = split(line, word)
        at = read_room_line(line, word, n, at)
    }
    if (!rooms) fail(file ": found no room in it")
}
function read_room_line(line, word, n, at) {
    if (word[1] == "room" && n > 2) {
        at = word[2]
        if (at in rank) fail("tests/rooms.txt: room " at " stands there twice")
        room[++rooms] = at; rank[at] = rooms; says[at] = rest_of(line, 2)
    } else if (word[1] == "uses" && at && n > 1) uses[at] = uses[at] " " rest_of(line, 1)
    else if (word[1] == "program" && at && n == 1) program[at] = 1
    else if (word[1] == "column" && n > 1) column[++columns] = rest_of(line, 1)
    else if (word[1] == "only" && n > 2) only[word[2]] = only[word[2]] " " rest_of(line, 2)
    else if (word[1] == "safe" && n > 1) words_into(safe, rest_of(line, 1))
    else if (word[1] == "opens" && n > 2) opens[word[2]] = rest_of(line, 2)
    else if (word[1] == "loop" && n > 1) words_into(loop, rest_of(line, 1))
    else if (word[1] == "files" && n > 2) pathed[word[2]] = rest_of(line, 2)
    else if (word[1] == "exact" && n > 2) exact[word[2]] = rest_of(line, 2)
    else if (word[1] == "pure" && n > 1) words_into(pure, rest_of(line, 1))
    else if (word[1] == "borrows" && n > 1) words_into(borrows, rest_of(line, 1))
    else if (word[1] == "impure" && n > 2) impure[word[2]] = rest_of(line, 2)
    else if (word[1] == "cache" && n > 2) cache[word[2]] = rest_of(line, 2)
    else if (word[1] == "apart" && n > 2) apart[word[2]] = rest_of(line, 2)
    else if (word[1] == "crowded" && n > 2) crowded[word[2]] = rest_of(line, 2)
    else if (word[1] == "prefix" && n > 2) prefix[word[2]] = rest_of(line, 2)
    else if (word[1] == "code" && n == 2 && word[2] ~ /^[0-9]+$/) code = word[2]
    else if (word[1] == "twice" && n > 2) twice[word[2]] = rest_of(line, 2)
    else fail("tests/rooms.txt: what is this line? " line)
    return at
}

# May a file of room A know one of room B?  "" or why not.
function forbidden(a, b) {
    if (a == b) return ""
    if ((a in program || b in program) && top_of(a) == top_of(b))
        return "a program of its own shares nothing with other rooms of its folder"
    if (rank[b] > rank[a]) return "it is above it in tests/rooms.txt"
    return ""
}
# The entry of room A's `uses` that permits PATH (a header, or a room with a slash at its end), or "".
function permit(a, path,   word, n, i) {
    n = split(uses[a], word)
    for (i = 1; i <= n; i++)
        if (path == word[i] || word[i] ~ /\/$/ && index(path, word[i]) == 1 ||
            path ~ /\/$/ && folder_of(word[i]) "/" == path) return word[i]
    return ""
}
