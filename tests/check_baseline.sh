#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_baseline.sh OBJDIR [CC] - only the tables of wide kernels contain instructions beyond x86-64's baseline
#
# A processor without AVX2 dies of SIGILL at the first wider instruction, so:
#   1. no object but *.avx2.o and *.avx512.o contains one (baseline: SSE2, no POPCNT, no BMI);
#   2. a wide object defines its fill function kern_fill_NAME_ISA and no other symbol: the linker
#      could choose a wide copy of a shared function for a caller that runs everywhere;
#   3. only ops_ref.o calls a wide fill function.
# With CC it first tries itself: it plants each mistake and expects to find it.
# Not checked: archives of other projects that are linked in; libcrypto asks the processor
# itself.
set -u
folders='kernels engine agent controller db'

# tzcnt is missing on purpose: `rep bsf`, which compilers emit for the baseline, is printed as tzcnt.
wide_words='
popcnt lzcnt andn bextr blsi blsmsk blsr bzhi mulx pdep pext rorx sarx shlx shrx movbe adcx adox
cmpxchg16b crc32b crc32w crc32l crc32q rdrand rdseed rdpid rdfsbase rdgsbase wrfsbase wrgsbase
xgetbv xsave xsave64 xsavec xsavec64 xsaveopt xsaveopt64 xrstor xrstor64 xbegin xend xabort xtest
clflushopt clwb prefetchw prefetchwt1 movdiri movdir64b enqcmd serialize umonitor umwait tpause
addsubpd addsubps haddpd haddps hsubpd hsubps lddqu movddup movshdup movsldup fisttp fisttps fisttpl fisttpll
pabsb pabsw pabsd palignr phaddw phaddd phaddsw phsubw phsubd phsubsw pmaddubsw pmulhrsw pshufb
psignb psignw psignd
blendpd blendps blendvpd blendvps dppd dpps extractps insertps movntdqa mpsadbw packusdw pblendvb
pblendw pcmpeqq pextrb pextrd pextrq phminposuw pinsrb pinsrd pinsrq pmaxsb pmaxsd pmaxud pmaxuw
pminsb pminsd pminud pminuw pmovsxbw pmovsxbd pmovsxbq pmovsxwd pmovsxwq pmovsxdq pmovzxbw pmovzxbd
pmovzxbq pmovzxwd pmovzxwq pmovzxdq pmuldq pmulld ptest roundpd roundps roundsd roundss
pcmpestri pcmpestrm pcmpistri pcmpistrm pcmpgtq extrq insertq movntsd movntss
aesenc aesenclast aesdec aesdeclast aesimc aeskeygenassist pclmulqdq pclmullqlqdq pclmulhqlqdq
pclmullqhqdq pclmulhqhqdq sha1rnds4 sha1nexte sha1msg1 sha1msg2 sha256rnds2 sha256msg1 sha256msg2
gf2p8affineqb gf2p8affineinvqb gf2p8mulb ldtilecfg sttilecfg tilerelease tilezero'

# The first wide instruction of each object, by function.  Whatever begins with v is VEX or EVEX.
wide_code() {
    objdump -d --no-show-raw-insn "$@" | awk -F '\t' -v words="$wide_words" '
        BEGIN { n = split(words, w, /[ \n]+/); for (i = 1; i <= n; i++) wide[w[i]] = 1 }
        / file format / { file = $0; sub(/: +file format .*/, "", file); next }
        /^[0-9a-f]+ <.*>:$/ { fn = $0; sub(/^[0-9a-f]+ </, "", fn); sub(/>:$/, "", fn); next }
        NF < 2 || told == file { next }
        {
            insn = $2
            while (insn ~ /^(lock|rep|repz|repnz|notrack|bnd|data16|addr32|cs|ds|es|ss|fs|gs|rex[.WRXB]*) /)
                sub(/^[^ ]+ +/, "", insn)
            word = insn
            sub(/ .*/, "", word)
        }
        word == "xgetbv" && file ~ /\/processor\.o$/ { next } # asked for only where CPUID has osxsave
        word in wide || word ~ /^v/ || insn ~ /%([yz]mm[0-9]|k[0-7]|tmm)/ ||
        word == "pextrw" && insn ~ /%xmm[0-9]+,[^%]*\(/ {
            gsub(/ +/, " ", insn)
            print file ": " fn "() has \"" insn "\", which not every x86-64 processor can run"
            told = file
        }'
}

# Symbols of wide objects that another object could be given by the linker.
wide_symbols() {
    local f isa
    for f in "$@"; do
        isa=${f%.o}
        isa=${isa##*.}
        nm -g --defined-only "$f" | awk -v f="$f" -v isa="$isa" '
            NF == 3 && !($2 == "T" && $3 ~ "^kern_fill_[a-z0-9_]+_" isa "$") {
                print f ": defines " $3 " (" $2 "), which a caller on any processor could get" }'
    done
}

# Who may call wide code is ops_ref.c, which asks the processor first.
wide_callers() {
    nm -A -u "$@" | awk '$NF ~ /^kern_fill_.*_avx(2|512)$/ && $1 !~ /\/ops_ref\.o:/ {
        sub(/:$/, "", $1); print $1 ": calls " $NF "; only kernels/ops_ref.c may" }'
}

check() {
    local obj=$1 d f plain=() wide=() found
    for d in $folders; do
        found=0
        while IFS= read -r f; do
            found=1
            case $f in *.avx2.o | *.avx512.o) wide+=("$f") ;; *) plain+=("$f") ;; esac
        done < <(find "$obj/$d" -name '*.o' 2>/dev/null | sort)
        [ $found = 1 ] || { echo "check_baseline.sh: no objects in $obj/$d"; return 1; }
    done
    [ ${#wide[@]} -gt 0 ] || { echo "check_baseline.sh: no *.avx2.o, *.avx512.o in $obj"; return 1; }
    found=$(wide_code "${plain[@]}"; wide_symbols "${wide[@]}"; wide_callers "${plain[@]}")
    [ -z "$found" ] || { echo "$found"; return 1; }
}

# plant FILE FLAGS TEXT - one object more in the tree of the self-test
plant() { echo "$3" | $cc -O2 -w $2 -x c -c -o "$tree/$1" - || exit 1; }

# expect WORDS - the tree must be refused with these words; then the plant is taken out again
expect() {
    local said
    if said=$(check "$tree") || ! grep -qF -- "$2" <<<"$said"; then
        echo "check_baseline.sh: does not find $2 in $1: ${said:-accepted}"
        exit 1
    fi
    rm -f "$tree/$1"
}

self_test() {
    local d v='typedef int v8 __attribute__((vector_size(32))); void add(v8 *a, v8 *b) { *a += *b; }'
    tree=$(mktemp -d) cc=$1
    trap 'rm -rf "$tree"' EXIT
    for d in $folders; do mkdir "$tree/$d"; plant "$d/a.o" '' "$v"; done
    expect none.o 'no *.avx2.o'
    plant kernels/b.avx2.o -mavx2 'static int f(void) { return 1; } int kern_fill_b_avx2(void) { return f(); }'
    check "$tree" || { echo 'check_baseline.sh: refuses objects without mistakes'; exit 1; }
    plant engine/b.o -mavx2 "$v"; expect engine/b.o 'engine/b.o: add() has "v'
    plant agent/b.o -mpopcnt 'int bits(unsigned a) { return __builtin_popcount(a); }'; expect agent/b.o '"popcnt'
    plant db/b.o -msse4.1 'double up(double a) { return __builtin_ceil(a); }'; expect db/b.o '"roundsd'
    plant db/b.o -mbmi2 'unsigned s(unsigned a, int n) { return a << n; }'; expect db/b.o '"shlx'
    plant kernels/c.avx2.o -mavx2 'int shared(void) { return 1; }'; expect kernels/c.avx2.o 'shared (T)'
    plant kernels/c.avx2.o -mavx2 '__attribute__((weak)) int kern_fill_c_avx2(void) { return 1; }'
    expect kernels/c.avx2.o 'kern_fill_c_avx2 (W)'
    plant engine/b.o '' 'int kern_fill_b_avx2(void); int f(void) { return kern_fill_b_avx2(); }'
    expect engine/b.o 'calls kern_fill_b_avx2'
    rm "$tree/db/a.o"; expect none.o "no objects in $tree/db"
}

[ "$(uname -m)" = x86_64 ] || { echo "  not an x86-64 machine: instructions not checked"; exit 0; }
[ $# -lt 2 ] || self_test "$2"
check "$1"
