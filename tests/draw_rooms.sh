#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# draw_rooms.sh ROOT - the rooms of tests/rooms.txt and who includes whom, as SVG on standard output
#
# A column per line "column"; in it a room stands one floor above the highest room that it includes there, and
# a floor of more than three rooms has several rows.  Arrows are includes within the column, without those that
# follow from others; what a room includes of other columns is written in it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
# shellcheck disable=SC2046
awk "$(cat "$here/rooms.awk")"'
BEGIN {
    MOST = 3; WIDE = 330; GAP = 64; TOP = 40; BETWEEN = 26; LINE = 13; INSIDE = 8; APART = 10
    split("#8a5a2b #2d6a8e #7a4f8f #6f6a1f #3f7a4a", colour)
    read_rooms("tests/rooms.txt")
    for (i = 1; i <= columns; i++) { n = split(column[i], word); for (j = 1; j <= n; j++) column_of[word[j]] = i }
    for (i = 1; i <= rooms; i++) {
        if (!(top_of(room[i]) in column_of)) fail("tests/rooms.txt: " top_of(room[i]) "/ is in no column")
        if (!(top_of(room[i]) in paint)) paint[top_of(room[i])] = colour[++painted <= 5 ? painted : 5]
    }
}
FNR == 1 { at = folder_of(FILENAME); files[at] += FILENAME ~ /\.(c|cu)$/ }
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    to = folder_of(part[2])
    if (at in rank && to in rank && rank[to] < rank[at]) includes[at, to] = 1
}
END {
    if (bad) exit 1
    set_floors(); find_reach(); set_sizes(); set_places()
    draw()
}
function near(a, b) { return column_of[top_of(a)] == column_of[top_of(b)] }
function column_at(i) { return column_of[top_of(room[i])] }
function set_floors(   i, j, c) {
    for (i = 1; i <= rooms; i++) {
        floor[i] = 1
        for (j = 1; j < i; j++) if ((room[i], room[j]) in includes && near(room[i], room[j]) && floor[j] >= floor[i]) floor[i] = floor[j] + 1
        nth[i] = beside[column_at(i), floor[i]]++
        if (floor[i] > floors) floors = floor[i]
    }
    for (i = 1; i <= rooms; i++) set_row_of_floor(i, beside[column_at(i), floor[i]])
    for (c = 1; c <= columns; c++) for (j = 1; j <= floors; j++) { under[c, j] = rows[c]; rows[c] += tall[c, j] }
    for (i = 1; i <= rooms; i++) row[i] = under[column_at(i), floor[i]] + within[i]
}
# n rooms on a floor of a column: as few rows as MOST permits, each with as many rooms as the others.
function set_row_of_floor(i, n,   many, per) {
    many = int((n + MOST - 1) / MOST)
    per = int((n + many - 1) / many)
    within[i] = int(nth[i] / per) + 1
    place[i] = nth[i] % per
    mates[i] = within[i] < many ? per : n - per * (many - 1)
    tall[column_at(i), floor[i]] = many
}
# reach[i, j]: from i down to j, within a column.  Those below come first, so theirs is known already.
function find_reach(   i, j, k) {
    for (i = 1; i <= rooms; i++) for (j = 1; j < i; j++) if ((room[i], room[j]) in includes && near(room[i], room[j])) {
        reach[i, j] = 1
        for (k = 1; k < j; k++) if ((j, k) in reach) reach[i, k] = 1
    }
}
function needed(i, j,   k) {
    for (k = j + 1; k < i; k++) if ((room[i], room[k]) in includes && near(room[i], room[k]) && (k, j) in reach) return 0
    return 1
}
function set_sizes(   i, j, n, others) {
    for (i = 1; i <= rooms; i++) {
        width[i] = (WIDE - (mates[i] - 1) * APART) / mates[i]
        wrap(i, says[room[i]])
        others = ""
        for (j = 1; j < i; j++) if ((room[i], room[j]) in includes && !near(room[i], room[j])) others = others (others == "" ? "includes " : ", ") room[j]
        plain[i] = lines[i] + 0
        if (others != "") wrap(i, others)
        n = INSIDE * 2 + 4 + LINE * (1 + lines[i])
        if (n > height[column_at(i), row[i]]) height[column_at(i), row[i]] = n
    }
}
function wrap(i, words,   n, word, j, most, line) {
    most = int((width[i] - 2 * INSIDE) / 5.3)
    n = split(words, word, " ")
    for (j = 1; j <= n; j++) {
        if (line != "" && length(line " " word[j]) > most) { text[i, ++lines[i]] = line; line = word[j] }
        else line = line == "" ? word[j] : line " " word[j]
    }
    text[i, ++lines[i]] = line
}
function set_places(   r, i, c, h, high) {
    for (c = 1; c <= columns; c++) {
        h[c] = TOP
        for (r = 1; r <= rows[c]; r++) h[c] += height[c, r] + BETWEEN
        if (h[c] > end) end = h[c]
    }
    for (c = 1; c <= columns; c++) {
        high = end
        for (r = 1; r <= rows[c]; r++) { bottom[c, r] = high - BETWEEN; high -= height[c, r] + BETWEEN }
    }
    for (i = 1; i <= rooms; i++) {
        x[i] = left_of(i) + place[i] * (width[i] + APART)
        y[i] = foot(i) - tallness(i)
    }
}
function foot(i) { return bottom[column_at(i), row[i]] }
function tallness(i) { return height[column_at(i), row[i]] }
function left_of(i) { return GAP - 10 + (column_at(i) - 1) * (WIDE + GAP) }
function escaped(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
function draw(   i, j, w, h) {
    w = columns * (WIDE + GAP) + GAP - 20; h = end + 18
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"10.5\">\n", w, h
    print "<!-- drawn by tests/draw_rooms.sh -->"
    print "<title>Rooms of jobctl and what they include</title>"
    print "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#8a8a8a\"/></marker></defs>"
    for (i = 1; i <= columns; i++)
        printf "<text x=\"%d\" y=\"24\" font-size=\"15\" font-weight=\"bold\" text-anchor=\"middle\" fill=\"#808080\">%s</text>\n", GAP - 10 + (i - 1) * (WIDE + GAP) + WIDE / 2, escaped(title(column[i]))
    for (i = 1; i <= rooms; i++) for (j = 1; j < i; j++)
        if ((room[i], room[j]) in includes && near(room[i], room[j]) && needed(i, j)) arrow(i, j)
    for (i = 1; i <= rooms; i++) box(i)
    printf "<text x=\"%d\" y=\"%d\" fill=\"#808080\">An arrow: includes. Arrows that follow from others are left out; a program of its own has a dashed border.</text>\n", GAP - 10, h - 14
    print "</svg>"
}
function title(tops,   n, word, i, s) {
    n = split(tops, word, " ")
    for (i = n; i > 0; i--) s = s (s == "" ? "" : ", ") word[i] "/"
    return s
}
# To the row below straight; further down through a lane beside the column, one for all arrows to a room.
function arrow(i, j,   from, to, lane, off) {
    from = x[i] + width[i] / 2; to = x[j] + width[j] / 2
    if (row[i] - row[j] == 1) {
        line_to(sprintf("M%d %dC%d %d %d %d %d %d", from, foot(i), from, y[j] - BETWEEN / 2, to, y[j] - BETWEEN / 2, to, y[j]))
        return
    }
    if (!(j in lane_of)) lane_of[j] = lanes[column_at(j)]++
    lane = left_of(j) - 7 - 6 * (lane_of[j] % 7); off = 3 * (lane_of[j] % 7)
    line_to(sprintf("M%d %dV%dH%dV%dH%dV%d", from - 8, foot(i), foot(i) + 4 + off, lane, y[j] - 9 - off / 2, to - 8, y[j]))
}
function line_to(path) {
    printf "<path fill=\"none\" stroke=\"#8a8a8a\" stroke-width=\"1.3\" stroke-linejoin=\"round\" marker-end=\"url(#tip)\" d=\"%s\"/>\n", path
}
function box(i,   k, line) {
    printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\"%s/>\n", x[i], y[i], width[i], tallness(i), paint[top_of(room[i])], (room[i] in program) ? " stroke=\"#b0b0b0\" stroke-width=\"2\" stroke-dasharray=\"5 3\"" : ""
    line = y[i] + INSIDE + LINE
    printf "<text x=\"%d\" y=\"%d\" fill=\"#ffffff\" font-size=\"12.5\" font-weight=\"bold\">%s/</text>\n", x[i] + INSIDE, line - 1, escaped(room[i] == top_of(room[i]) ? room[i] : name_of(room[i]))
    for (k = 1; k <= lines[i]; k++)
        printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", x[i] + INSIDE, line + k * LINE, (k > plain[i] ? "#d8d8d8\" font-style=\"italic" : "#ffffff"), escaped(text[i, k])
}' $(find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort)
