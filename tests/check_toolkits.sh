#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_toolkits.sh LIBS.MK - tests make with CUDA toolkits that this machine does not have, with a stand-in for nvcc
#
# The stand-in says that it is of FAKE_VERSION and knows FAKE_CODE; it compiles nothing, or fails with FAKE_ERROR.
# LIBS.MK is that of this build, so that no library is looked for again.
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-toolkits.XXXXXX")
trap 'rm -rf "$work"' EXIT
bad=0 cases=0
plugin=lib/libjobctl_cuda.so
export FAKE_VERSION FAKE_CODE FAKE_ERROR FAKE_LOG="$work/args"

cat >"$work/nvcc" <<'END'
#!/bin/bash
case $* in
*--version*) printf 'Cuda compilation tools, release %s, V%s.99\n' "$FAKE_VERSION" "$FAKE_VERSION" ;;
*--list-gpu-code*) printf 'sm_%s\n' $FAKE_CODE ;;
*)
    echo "$*" >>"$FAKE_LOG"
    [ -z "$FAKE_ERROR" ] || { echo "$FAKE_ERROR"; exit 1; }
    while [ "$1" != -o ]; do shift; done
    : >"$2"
    echo "ptxas info    : Compiling entry function 'add' for 'sm_80'"
    echo "    0 bytes stack frame, ${FAKE_SPILL:-0} bytes spill stores, 0 bytes spill loads"
    echo "ptxas info    : Used 8 registers" ;;
esac
END
chmod +x "$work/nvcc"

# toolkit VERSION CODE [ERROR] - from now on nvcc is of this one
toolkit() { FAKE_VERSION=$1 FAKE_CODE=$2 FAKE_ERROR=${3:-}; }

# says CODE TEXT COMMAND... - it ends with CODE, and its output has TEXT
says() {
    local code=$1 text=$2
    shift 2
    cases=$((cases + 1))
    "$@" >"$work/out" 2>&1
    local ended=$?
    [ $ended = "$code" ] && { [ -z "$text" ] || grep -qF -e "$text" "$work/out"; } && return
    echo "FAILED toolkits, nvcc $FAKE_VERSION: $*: exit $ended instead of $code, or no '$text' in:"
    cat "$work/out"
    bad=1
}

# what GOAL [VARIABLE=...] - make with the stand-in, in a build that has no other programs
what() {
    mkdir -p "$work/build"
    [ -e "$work/build/libs.mk" ] || sed '/^build/d' "$libs" >"$work/build/libs.mk"
    MAKEFLAGS='' MFLAGS='' make --no-print-directory BUILD="$work/build" NVCC="$work/nvcc" PROGRAMS= NCCLPROF= \
        COMMIT=none DATE=1970-01-01 HAVE_SLURM= COMPILER=gcc have_cxx= "$@"
}
plugin() { what "$work/build/$plugin" "$@"; }
libs=$1

all='75 80 90'
toolkit 11.8 '70 75 80 86 89 90'
says 0 'ok 11.8 -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80' deploy/nvcc.sh "$all" "$work/nvcc"
says 0 'code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]' deploy/nvcc.sh "$all" "$work/nvcc"
toolkit 12.9 '75 80 90 100 120'
says 0 'arch=compute_120,code=[sm_120,compute_120]' deploy/nvcc.sh "$all 120" "$work/nvcc" -ccbin g++-11
toolkit 14.0 '80 90 100'
says 0 'ok 14.0 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90' deploy/nvcc.sh "$all" "$work/nvcc"
says 0 'no nvcc of toolkit 14.0 knows none of: 75' deploy/nvcc.sh 75 "$work/nvcc"
toolkit 11.0 '75 80'
says 0 'no the toolkit of nvcc is 11.0, and 11.8 or newer is needed' deploy/nvcc.sh "$all" "$work/nvcc"
toolkit 9.2 70
says 0 '9.2, and 11.8 or newer' deploy/nvcc.sh "$all" "$work/nvcc"
toolkit unknown ''
says 0 'does not say of which toolkit' deploy/nvcc.sh "$all" "$work/nvcc"
says 0 'no nowhere does not run' deploy/nvcc.sh "$all" /nowhere

# make: without the plugin where the toolkit is too old, or fails; what needs the plugin fails there.
toolkit 11.0 '75 80'
says 0 'CUDA kernels not built, jobs run on the CPU: the toolkit of nvcc is 11.0, and 11.8 or newer is needed' what all
says 0 'registers of kernels not checked: the toolkit of nvcc is 11.0' what resources
says 2 'not built: the toolkit of nvcc is 11.0' plugin
says 0 'jobs run on the CPU: no nvcc was found' what all NVCC=
toolkit 12.4 '75 80 90' 'a.h(1): error: unsupported GNU version'
says 0 'unsupported GNU version' what all
says 0 'CUDA kernels not built, jobs run on the CPU: nvcc 12.4 failed, see ' what all
says 2 'not built: nvcc 12.4 failed, see ' plugin
says 2 'not built: nvcc 12.4 failed, see ' what resources
toolkit 12.4 '75 80 90'
says 0 '1 for all targets' what all
says 0 '' grep -qF 'code=[sm_90,compute_90]' "$FAKE_LOG"

# Not again without need; again with another toolkit, other targets, or if the plugin is gone.
: >"$FAKE_LOG"
says 0 '' plugin
says 1 '' grep -q . "$FAKE_LOG"
toolkit 13.0 '75 80 90'
says 0 'NVCC' plugin
says 0 'NVCC' plugin CUDA_TARGETS=75
says 0 '' grep -qF 'code=[sm_75,compute_75]' "$FAKE_LOG"
rm "$work/build/$plugin"
says 0 'NVCC' plugin CUDA_TARGETS=75

# An older compiler may spill a little.
FAKE_SPILL=8 what all CUDA_TARGETS=80 >"$work/out" 2>&1
says 1 '8 bytes spilled; allowed are 128, 49152 and none' tests/gpu/resources.sh "$work/build/$plugin.ptxas"
toolkit 12.4 '75 80 90'
FAKE_SPILL=8 what all >"$work/out" 2>&1
says 0 '1 of them spill up to 32 bytes' tests/gpu/resources.sh "$work/build/$plugin.ptxas"
FAKE_SPILL=40 what all CUDA_TARGETS=75 >"$work/out" 2>&1
says 1 '40 bytes spilled; allowed are 128, 49152 and 32' tests/gpu/resources.sh "$work/build/$plugin.ptxas"

[ $bad = 0 ] && echo "  toolkits: $cases answers of make and a stand-in of nvcc as they must be"
exit $bad
