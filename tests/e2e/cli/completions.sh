# SPDX-License-Identifier: Apache-2.0
# Completion in bash, zsh and fish: commands, options, subcommands of `nodes`, jobs, nodes, keys of a spec.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
for shell in zsh fish; do
    command -v $shell >/dev/null || { echo "$shell is not installed (deploy/bootstrap.sh --all)"; exit 77; }
done

# offers SHELL WORD...: what the shell offers for the last word, one per line.
offers() { "offers_$@" | sort -u; }
offers_bash() {
    bash -u -c 'eval "$(jobctl completions bash)"; COMP_WORDS=(jobctl "$@"); COMP_CWORD=$#
        _jobctl; printf "%s\n" "${COMPREPLY[@]}"' - "$@"
}
# Without a terminal zsh has no completion system: these functions stand for it, and filter by prefix last.
offers_zsh() {
    zsh -f -c '
        _describe() { [[ $1 == -o ]] && shift; local -a rows; rows=("${(@P)2}"); print -rl -- "${rows[@]%%:*}" }
        compadd() { [[ $1 == -- ]] && shift; print -rl -- "$@" }
        compset() { PREFIX=${PREFIX#*=} }
        _files() { print -rl -- * }
        compdef() { [[ $1 == _jobctl && $2 == jobctl ]] || exit 9 }
        source <(jobctl completions zsh) || exit 9
        words=(jobctl "$@") CURRENT=$(($# + 1)) PREFIX=$words[-1]
        _jobctl | while read -r word; do [[ $word != ${PREFIX#--*=}* ]] || print -r -- $word; done' - "$@"
}
offers_fish() {
    fish --no-config -c 'jobctl completions fish | source; complete -C "jobctl $argv"' -- "$*" | cut -f 1
}
# has_word WORD, no_word WORD: one of the lines in $WORK/offered.
has_word() { grep -qxF -e "$1" offered || { echo "$shell does not offer $1:"; cat offered; exit 1; }; }
no_word() { ! grep -qxF -e "$1" offered || { echo "$shell offers $1:"; cat offered; exit 1; }; }

touch 'a file.yaml' job.yaml
# No daemon runs, and none is started.
for shell in bash zsh fish; do
    offers $shell show '' >offered
    no_word 1
done
[ ! -e "$JOBCTL_HOME" ]

printf 'name: hello\nrun: echo hello\nresources: {gpus: 0, cpus: 1}\n' >job.yaml
code 0 jobctl submit -q --hold job.yaml
code 0 jobctl submit -q --hold --set name=other job.yaml
node=$(jobctl nodes --json | field nodes.0.name)
for shell in bash zsh fish; do
    offers $shell '' >offered
    for word in submit prune nodes; do has_word $word; done
    for word in relay render completions; do no_word $word; done
    offers $shell submit >offered
    has_word submit
    no_word nodes
    offers $shell submit --f >offered
    has_word --follow
    no_word --hold
    offers $shell submit '' >offered
    for word in 'a file.yaml' job.yaml; do has_word "$word"; done
    no_word 1
    for command in show rm 'logs -f'; do
        offers $shell $command '' >offered
        for word in 1 2 hello other last; do has_word $word; done
        no_word job.yaml
    done
    host='' # behind -H HOST; "" is this machine
    [ $shell != fish ] || host="''"
    offers $shell -H "$host" submit --f >offered
    has_word --follow
    no_word --hold
    offers $shell -H "$host" s >offered
    has_word submit
    offers $shell -H "$host" show '' >offered
    for word in 1 hello last; do has_word $word; done
    offers $shell plan '' >offered
    for word in 1 hello job.yaml; do has_word $word; done
    offers $shell nodes '' >offered
    for word in test add drain resume remove; do has_word $word; done
    no_word "$node"
    offers $shell nodes drain '' >offered
    has_word "$node"
    no_word resume
    offers $shell submit --set train.optimizer.l >offered
    has_word train.optimizer.lr=
    no_word train.optimizer.eps=
    offers $shell submit -s '' >offered
    for word in retry.max= launch=; do has_word $word; done
    for word in retry= notify= job.yaml 'watch[].name='; do no_word "$word"; done
    offers $shell logs --rank '' >offered
    for word in 1 job.yaml; do no_word $word; done
    offers $shell show --report '' >offered
    has_word job.yaml
    no_word 1
    offers $shell help sub >offered
    has_word submit
    offers $shell daemon '' >offered
    no_word job.yaml
done
# One word with its value: bash makes three of it.
shell=bash
offers bash submit --set = prior >offered
has_word priority=
shell=zsh
offers zsh submit --set=prior >offered
offers fish submit --set=prior >>offered
has_word priority=
has_word --set=priority=

# A file that zsh finds by itself completes at the first call.
jobctl completions zsh >_jobctl
zsh -f -c 'compadd() { print -l -- "$@" }; _describe() { print called }; fpath=(. $fpath); autoload -U _jobctl
    words=(jobctl s) CURRENT=2 PREFIX=s; _jobctl' >out
has called out
