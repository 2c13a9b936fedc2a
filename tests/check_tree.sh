#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_tree.sh [TOP] - refuses files that the tree should not have: something that a test or an editor left
# behind, a binary, a file of more than 2 MB
#
# In a git checkout it looks at all that git tracks or would add, else at all there is beside build/.  A new
# kind of file is a word in one of the two lists below.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1

# What lies where: a folder, and what the names of its files (with the folders below it) match.
where=$(cat <<'END'
.               \.clang-format|\.clang-tidy|\.editorconfig|\.gitignore|(CHANGES|CONTRIBUTING|README(\.zh-CN)?|SECURITY)\.md|LICENSE|Makefile
agent           [a-z0-9_/]+\.[ch]
controller      [a-z0-9_/]+\.[ch]|dashboard/assets/[a-z]+\.(html|css|js|svg)|dashboard/report/[a-z]+\.js|dashboard/uplot/(uPlot\.(esm\.js|min\.css)|LICENSE|README\.md)
.ci             run
.github         workflows/[a-z]+\.yml|ISSUE_TEMPLATE/[a-z]+\.(md|yml)
db              [a-z0-9_]+\.[ch]|schema\.sql
deploy          [a-z0-9_]+\.(sh|py|txt|ipynb|service)|tmpfiles\.d/jobctl\.conf|grafana/[a-z]+\.(json|yaml)|debian/[a-z0-9_.-]+(/[a-z0-9_.-]+)?
docs            [A-Za-z0-9_-]+\.(md|svg|png)
engine          [a-z0-9_/]+\.[ch]
kernels         [a-z0-9_]+\.(c|h|cu|cuh)|dev/SPEED\.md
templates       [A-Za-z0-9_/-]+\.(md|yaml|py|sbatch|png|txt)
tests           [a-z0-9_]+\.(sh|txt|awk|mk)|README\.md
tests/axe       axe\.min\.js|LICENSE|README\.md
tests/attack    README\.md|[a-z0-9_]+\.(c|h|sh|py)
tests/bench     [a-z0-9_]+\.(c|sh|py)
tests/causes    [0-9]+-[a-z0-9-]+\.txt
tests/cpus      [a-z0-9_]+\.(c|sh)
tests/cuda_cpu  [A-Za-z0-9_]+\.(cc|h|sh)|plant/[a-z]+\.(py|sh|txt)
tests/e2e       [a-z]+/[a-z0-9-]+\.sh|[a-z_]+\.(sh|py|yaml|json)|first\.txt
tests/facts     [a-z0-9-]+\.(json|machine|plan)
tests/fake      [a-z0-9_]+\.c
tests/fuzz      [a-z0-9_]+\.(c|h|sh|dict)|corpus/[a-z0-9_]+/.+
tests/golden    [a-z0-9]+/((hostile/)?[A-Za-z0-9_.-]+\.(jsonl?|safetensors|model|pth)|SHA256SUMS)|data/(img|wds|feat)/[A-Za-z0-9_-]+\.(png|jpg|txt|json|tar|npz)
tests/gpu       [a-z0-9_]+\.(c|h|sh|json)
tests/mutants   mutate\.py|known\.txt
tests/outcomes  [a-z]+\.(py|yaml)
tests/payload   [a-z0-9_]+\.py
tests/process   [a-z0-9_/]+\.[ch]
tests/ptx       [a-z0-9_]+\.(c|h|cc|sh|txt)|step-[a-z0-9-]+\.txt
tests/sim       (agent/)?[a-z0-9_]+\.[ch]|goodput|plant|replay
tests/slurm     [a-z0-9_]+\.sh
tests/soak      [a-z0-9-]+\.sh|[a-z_]+\.py
tests/specs     .+\.(yaml|err|json)|data/README
tests/unit      [a-z0-9_/]+\.[ch]
tests/verify    [a-z0-9_]+\.[ch]
END
)
# What need not be text.
binary='^(docs/[a-z-]+\.png|templates/data/.+\.png|tests/(golden|fuzz/corpus)/.+)$'
left='(~|\.(orig|rej|swp|swo|bak|pyc|o|a|so|tmp|log\.[0-9]+)|/(core(\.[0-9]+)?|nohup\.out|\.DS_Store|#.*#|\.#.*))$'

files() {
    if [ -e .git ]; then
        git ls-files --cached --others --exclude-standard
    else
        find . -type f ! -path './build/*' ! -name '*.o' ! -path ./compile_commands.json | sed 's|^\./||'
    fi
}
bad=0
refuse() { echo "$1: $2" >&2; bad=1; }
list=$(files | sort -u | while IFS= read -r f; do [ ! -f "$f" ] || echo "$f"; done)
[ -n "$list" ] || { echo "check_tree.sh: no files in $PWD: nothing was checked" >&2; exit 1; }

strange=$(awk -v where="$where" '
    BEGIN {
        n = split(where, row, "\n")
        for (i = 1; i <= n; i++) { split(row[i], part, / +/); pattern[part[1]] = part[2] }
    }
    {
        folder = "."; name = $0
        if (match($0, /^tests\/[^\/]+\//) || match($0, /^[^\/]+\//)) {
            folder = substr($0, 1, RLENGTH - 1)
            name = substr($0, RLENGTH + 1)
        }
        if (!(folder in pattern) || name !~ ("^(" pattern[folder] ")$")) print
    }' <<<"$list")
for f in $strange; do refuse "$f" "nothing like it belongs there; if it does, tests/check_tree.sh shall say so"; done
for f in $(grep -E "$left" <<<"$list"); do refuse "$f" "a tool left it behind"; done
for f in $(grep -vE "$binary" <<<"$list" | tr '\n' '\0' | xargs -0 grep -IL ''); do
    [ ! -s "$f" ] || refuse "$f" "not text, and in no folder for what is not"
done
while read -r size f; do
    case $f in tests/golden/*) continue ;; esac
    [ "$size" -le 2097152 ] || refuse "$f" "$size bytes are too many for a repository"
done < <(tr '\n' '\0' <<<"$list" | xargs -0 stat -c '%s %n')

# A test that starts programs is not a unit test. It may fork, and start itself again (popen of /proc/self/exe).
programs='(^|[^a-z_])(execl|execle|execlp|execv|execve|execvp|execvpe|posix_spawnp?|uv_spawn|popen|system|child_start|subprocess_run(_with)?)\('
for f in $(grep -E '^tests/unit/.+\.[ch]$' <<<"$list" | tr '\n' '\0' | xargs -r -0 grep -lE "$programs"); do
    grep -q '"/proc/self/exe"' "$f" || refuse "$f" "starts a program: it belongs to tests/process"
done
exit $bad
