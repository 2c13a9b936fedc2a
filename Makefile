# SPDX-License-Identifier: Apache-2.0
# jobctl - one Makefile, no recursion.  `make help` lists what you can ask for.
#
# A top-level folder is a library: every .c in it, at any depth, goes into
# lib<folder>.a (but main.c and programs of their own), and the linker takes from
# a library only what a program needs.  A variant (SANITIZE=..., CC=clang) has a
# build tree of its own, so that switching costs nothing.

.DEFAULT_GOAL := all
comma    := ,
CC       := $(if $(filter default,$(origin CC)),gcc,$(CC))
JOBS     ?= $(shell nproc)
NVCC     ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
PREFIX   ?= /usr/local
CFLAGS   ?= -O2 -g
# Warnings are errors with the compilers that all this is tested with; what a newer one has to say stops
# nobody's build.
COMPILER := $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),clang,gcc)-$(firstword $(subst ., ,$(shell $(CC) -dumpversion 2>/dev/null)))
WERROR   ?= $(if $(filter gcc-12 clang-14,$(COMPILER)),-Werror)
SANITIZE ?=
Q        := $(if $(V),,@)
# Tests leave nothing in the tree, also not what Python compiles.
export PYTHONDONTWRITEBYTECODE := 1

WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
            -Wvla -Wwrite-strings -Wformat=2 -Wpointer-arith -Wundef -Wcast-qual
# A loop that a sanitizer keeps from being vectorised is no mistake.
WARN     += $(if $(and $(SANITIZE),$(findstring clang,$(CC))),-Wno-pass-failed)
# gcc's thread sanitizer knows no fences; all of ours are between processes, of which it sees one.
WARN     += $(if $(findstring thread,$(SANITIZE)),$(if $(findstring clang,$(CC)),,-Wno-tsan))
SAN      := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
VERSION  := $(shell sed -n 's/^\#\# \([0-9][^ ]*\).*/\1/p' CHANGES.md 2>/dev/null | head -n 1)
# The commit and its date, if this is a checkout; only the main.c of a program depends on them.
GIT      := $(if $(wildcard .git),git --no-optional-locks)
COMMIT   ?= $(if $(GIT),$(shell $(GIT) describe --always --exclude '*' --abbrev=12 --dirty=+ 2>/dev/null))
DATE     ?= $(or $(if $(GIT),$(shell $(GIT) log -1 --format=%cs 2>/dev/null)),$(shell date -u -r CHANGES.md +%F))
FLAGS_main := -DJOBCTL_COMMIT='"$(COMMIT)"' -DJOBCTL_DATE='"$(DATE)"'
FLAGS    := -std=gnu11 -D_GNU_SOURCE -I. $(WARN) $(WERROR) $(CFLAGS) $(SAN)
VARIANT  := $(if $(filter gcc,$(notdir $(CC))),,$(notdir $(CC)))$(if $(SANITIZE),$(if $(filter gcc,$(notdir $(CC))),,-)$(subst $(comma),-,$(SANITIZE)))
BUILD    := build$(if $(VARIANT),/$(VARIANT))
BIN      := $(BUILD)/bin
OBJ      := $(BUILD)/obj

# Top of the house first: the linker resolves downwards.  Rooms are folders below these (tests/rooms.txt).
DIRS     := controller db agent engine kernels
FILES    := $(sort $(shell find $(DIRS) -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'))
# The one file of this name, in whatever room it is.
source    = $(or $(if $(word 2,$(filter %/$(1),$(FILES))),,$(filter %/$(1),$(FILES))),$(error there must be one $(1) in $(DIRS)))
object    = $(patsubst %.c,$(OBJ)/%.o,$(call source,$(1)))

# Each kernel source is compiled once per instruction set; ops_ref.c picks a
# table when it runs.  See kernels/isa_table.h.
X86      := $(filter x86_64,$(shell uname -m))
SIMD     := $(filter-out %/ops_ref.c %/rng_ref.c,$(filter kernels/%_ref.c,$(FILES)))
SIMD_OBJ := $(if $(X86),$(SIMD:%.c=$(OBJ)/%.avx2.o) $(SIMD:%.c=$(OBJ)/%.avx512.o))

# Numbers: vectors (omp simd, no OpenMP threads: kernels/thread_pool.h), and never a multiply-add that the source does not
# ask for: the flow tables and random numbers need the same bits on every build.
# The vector kernels may use one: theirs are the bits of one processor anyway.
FLAGS_simd    := -ffp-contract=fast
FLAGS_kernels := -O3 -fopenmp-simd -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-psabi \
                 $(if $(X86),-DKERN_X86)
FLAGS_clang   := -fopenmp-simd
FLAGS_engine  := -O2 -ffp-contract=off
FLAGS_tests   := $(FLAGS_engine)
$(OBJ)/controller/slurm/%.o: FLAGS += $(SLURM_CFLAGS)

# The controller's helper for clusters, where libslurm is; SLURM_CFLAGS and SLURM_LIBS for one
# outside of the compiler's paths.
SLURM_LIBS ?= -lslurm
HAVE_SLURM := $(shell printf '\043include <slurm/slurm.h>' | $(CC) $(SLURM_CFLAGS) -E -x c - >/dev/null 2>&1 && echo 1)
SLURM_SRCS := $(filter controller/slurm/%.c,$(FILES))

# The link flags of each program and what is missing: written by deploy/libs.sh, and again when a package
# comes or goes.  The sanitizer builds link shared libraries only.
$(BUILD)/libs.mk: deploy/libs.sh
	@mkdir -p $(@D); deploy/libs.sh $@ '$(CC)' $(if $(SANITIZE),,static)
# What prepares the machine itself calls make again afterwards.
PREPARES := demo demo-sana test bootstrap release-check help clean
ifneq ($(or $(filter-out $(PREPARES),$(MAKECMDGOALS)),$(if $(MAKECMDGOALS),,all)),)
include $(BUILD)/libs.mk
endif
TESTING  := $(filter check units processes asan,$(MAKECMDGOALS))
MISSING  := $(strip $(LIBS_MISSING) $(if $(TESTING),$(TEST_MISSING)))
FLAGS    += $(LIBS_CFLAGS)

# PORTABLE=1: jobctl, jobctl-ssh and jobctl-fetch look for their libraries beside them first, those of other libraries included.
RPATH    := $(if $(PORTABLE),-Wl$(comma)--disable-new-dtags -Wl$(comma)-rpath$(comma)'$$ORIGIN/../lib')

# The controller's helper for other machines, where libssh is.
HAVE_SSH := $(if $(SSH_LD),1)
SSH_SRCS := $(filter controller/ssh/%.c,$(FILES))

# What downloads models from a hub: libcurl is in no other program that runs on hosts.
FETCH_SRCS := $(filter agent/fetch/%.c,$(FILES))

HDRS     := $(filter-out $(if $(HAVE_SSH),,controller/ssh/%) controller/slurm/%,$(filter %.h,$(FILES)))
CLANG_SRCS = $(SRCS) $(wildcard $(DIRS:=/main.c) tests/verify/*.c) $(FETCH_SRCS) $(if $(HAVE_SLURM),$(SLURM_SRCS)) \
            $(if $(HAVE_SSH),$(SSH_SRCS))
SRCS     := $(filter-out %/main.c %/ncclprof.c controller/ssh/% controller/slurm/% agent/fetch/%,$(filter %.c,$(FILES)))
OBJS     := $(SRCS:%.c=$(OBJ)/%.o) $(SIMD_OBJ)
# What the guards look into: all that this machine can compile.
SEEN     := $(OBJS) $(patsubst %.c,$(OBJ)/%.o,$(filter-out %/main.c,$(FETCH_SRCS) $(if $(HAVE_SLURM),$(SLURM_SRCS)) $(if $(HAVE_SSH),$(SSH_SRCS))))
lib       = $(OBJ)/lib$(1).a
have      = $(sort $(foreach s,$(SRCS),$(firstword $(subst /, ,$(s)))))
# In the order of DIRS, whatever `have` sorted them to.
libs      = $(foreach d,$(DIRS),$(if $(filter $(d),$(filter $(1),$(have))),$(call lib,$(d))))

PROGRAMS := $(if $(wildcard controller/main.c),$(BIN)/jobctl) \
            $(if $(wildcard agent/main.c),$(BIN)/jobctl-agent) \
            $(if $(wildcard engine/main.c),$(BIN)/jobctl-train) \
            $(if $(FETCH_SRCS),$(BIN)/jobctl-fetch)
PROGRAMS += $(if $(HAVE_SLURM),$(BIN)/jobctl-slurm)
PROGRAMS += $(if $(HAVE_SSH),$(BIN)/jobctl-ssh)
# A test program beside them, which is not installed: the engine against numbers of the models' authors.
VERIFY   := $(BIN)/jobctl-verify
VERIFY_SRCS := $(filter-out %/main.c,$(wildcard tests/verify/*.c))
UNITS    := $(patsubst tests/unit/%.c,$(OBJ)/tests/unit/%,$(sort $(shell find tests/unit -name 'test_*.c')))
PROCESSES := $(patsubst tests/process/%.c,$(OBJ)/tests/process/%,$(sort $(shell find tests/process -name 'test_*.c')))
unit      = $(filter %/test_$(1),$(UNITS))
SIMS     := $(patsubst tests/sim/%.c,$(OBJ)/tests/sim/%,$(wildcard tests/sim/sim_*.c))
SIM_SRCS := $(filter-out tests/sim/sim_%,$(wildcard tests/sim/*.c))

# Calls that fail on demand: tests/attack/README.md.
ATTACK   := $(OBJ)/tests/attack/faults.so

# A fuzz target is linked with libFuzzer in a build that has it, else with the replayer.
FUZZERS  := $(patsubst tests/fuzz/%.c,$(OBJ)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZING  := $(findstring fuzzer,$(SANITIZE))
DECODERS := $(OBJ)/tests/attack/decoders
FUZZ_SECONDS ?= 60

# CUDA: a plugin that jobctl-train loads when it is there; one translation unit (kernels/device.cuh).
# The same sources as plain C++ against a stand-in of CUDA, for tests without a GPU.
CUDA     := $(BUILD)/lib/libjobctl_cuda.so
CUDA_SRC := $(filter %.cu %.cuh,$(FILES)) $(foreach h,kernels.h cuda.h tile.h fixed.h rng.h rng_formula.h,$(call source,$(h)))
# What this toolkit knows of the GPUs that the plugin has machine code for, or why it builds no plugin.
CUDA_TARGETS ?= 75 80 90
TOOLKIT  := $(if $(NVCC),$(shell deploy/nvcc.sh '$(CUDA_TARGETS)' $(NVCC)),no no nvcc was found)
HAVE_NVCC := $(filter ok,$(firstword $(TOOLKIT)))
NO_NVCC  := $(if $(HAVE_NVCC),,$(wordlist 2,99,$(TOOLKIT)))
NO_CUDA   = $(or $(NO_NVCC),nvcc $(NVCC_VERSION) failed$(comma) see $(CUDA).failed)
NVCC_VERSION := $(if $(HAVE_NVCC),$(word 2,$(TOOLKIT)))
NVWERROR := $(and $(WERROR),$(filter 11.8 12.4 13.0,$(NVCC_VERSION)))
NVFLAGS  := -std=c++17 -O3 -I. -Xcompiler -fPIC,-Wall,-Wextra$(if $(NVWERROR),$(comma)-Werror),-fvisibility=hidden \
            $(if $(NVWERROR),-Werror all-warnings) -Xptxas -v -cudart static $(wordlist 3,99,$(TOOLKIT))
# A stand-in for NCCL, and one that lacks functions.
FAKE_NCCL := $(OBJ)/tests/fake/libnccl.so.2 $(OBJ)/tests/fake/libnccl-old.so.2
CUDA_CPU := $(OBJ)/tests/cuda_cpu/libjobctl_cuda.so
# The same with each access of the kernels to memory checked (tests/cuda_cpu/watch.cc).
CUDA_WATCHED := $(OBJ)/tests/cuda_cpu/watched/libjobctl_cuda.so
# And with faults in them (tests/cuda_cpu/plant/).
CUDA_PLANTED := $(OBJ)/tests/cuda_cpu/plant/libjobctl_cuda.so
CUDA_CPU_SRC := $(wildcard tests/cuda_cpu/*.cc)
CUDA_CPU_OBJ := $(CUDA_CPU_SRC:%.cc=$(OBJ)/%.cc.o)
KERNELS  := $(OBJ)/tests/gpu/check_kernels
# An interpreter of PTX, and the plugin as nvcc compiles it, run by that (tests/ptx/ptx.h).
PTX      := tests/ptx
PTX_SRC  := $(filter-out $(PTX)/test_%,$(wildcard $(PTX)/*.c))
PTX_OBJ  := $(PTX_SRC:%.c=$(OBJ)/%.o) $(if $(X86),$(OBJ)/$(PTX)/alu.avx2.o)
PTX_TEST := $(patsubst $(PTX)/%.c,$(OBJ)/$(PTX)/%,$(wildcard $(PTX)/test_*.c))
CUDA_PTX := $(OBJ)/$(PTX)/libjobctl_cuda.so
CXX      := $(if $(filter default,$(origin CXX)),g++,$(CXX))
have_cxx := $(shell command -v $(CXX))

# NCCL's profiler plugin: loaded by any NCCL, so it depends on nothing but libc.
NCCLPROF := $(BUILD)/lib/libjobctl_ncclprof.so

# Who has built the kernels for the CPU once gets them anew with `all`: a single end-to-end test takes what is there.
all: $(PROGRAMS) $(VERIFY) $(NCCLPROF) $(if $(HAVE_NVCC),$(CUDA).ptxas) $(wildcard $(CUDA_CPU))  ## build every program this machine can build, into build/bin
	@test -n '$(HAVE_NVCC)' -a -e $(CUDA) || echo "  CUDA kernels not built, jobs run on the CPU: $(NO_CUDA)"
	@$(if $(filter libwebp,$(LIBS_LACKING)),echo "  no libwebp found: WebP pictures cannot be read",:)
	@$(if $(HAVE_SLURM),:,echo "  no libslurm found: launch: slurm needs jobctl-slurm, which is not built")
	@$(if $(HAVE_SSH),:,echo "  no libssh found: jobs run on this machine only")
	@$(if $(AGENT_SHARED),echo "  static $(AGENT_SHARED) not found: jobctl-agent needs $(AGENT_SHARED:=.so) on each host",:)
	@$(if $(TRAIN_SHARED),echo "  static $(TRAIN_SHARED) not found: jobctl-train needs $(TRAIN_SHARED:=.so) on each host",:)

check: units processes layers pure circles guards baseline resources toolkits  ## unit tests, tests with processes, layer and purity checks; under a minute
	@tests/run_units.sh $(UNITS)
	@tests/run_units.sh $(PROCESSES)

units: $(UNITS) $(PROGRAMS) $(NCCLPROF)

processes: $(PROCESSES) $(PROGRAMS)

layers: $(HDRS:%=alone/%)
	@tests/check_layers.sh . $(DIRS)
	@tests/check_scripts.sh
	@tests/check_tree.sh

# A header compiles without others before it.
alone/%.h: FORCE $(OBJ)/flags
	@$(CC) $(FLAGS) -Wno-unused-function -fsyntax-only -x c $*.h

pure: $(OBJS)
	@tests/check_pure.sh . $(OBJ)

circles: $(SEEN)
	@tests/check_circles.sh . $(OBJ) $(SEEN)
	@tests/check_prefixes.sh . $(OBJ) $(OBJS)
	@tests/check_opens.sh . $(OBJ) $(OBJS)

guards:
	@CC='$(CC)' tests/check_guards.sh

baseline: $(OBJS) $(PROGRAMS)
	@tests/check_baseline.sh $(OBJ) '$(CC)'

resources: $(if $(HAVE_NVCC),$(CUDA))
	@$(if $(HAVE_NVCC),tests/gpu/resources.sh $(CUDA).ptxas,echo "  registers of kernels not checked: $(NO_NVCC)")

# Toolkits that this machine does not have, by a stand-in of nvcc.
toolkits: $(BUILD)/libs.mk
	@tests/check_toolkits.sh $<

# Half of the worlds are the same in every run, half are others each time; what fails prints how to repeat it.
SEEDS := 10000
sim: $(SIMS:%=run/%) run/others  ## the pure cores on a virtual clock: twice SEEDS worlds full of faults

$(SIMS:%=run/%): run/%: % FORCE
	@$* $(SEEDS)

run/others: $(OBJ)/tests/sim/sim_control FORCE
	@$< $(SEEDS) $$(od -An -N4 -tu4 /dev/urandom)

GOLDEN := $(wildcard tests/golden/sana/tiny-*[a-z].json tests/golden/lumina/v*.json tests/golden/tokenizer/vectors.json \
            tests/golden/gemma2/*.json tests/golden/pth/*.json tests/golden/pth/hostile/hostile.json \
            tests/golden/names/*.json tests/golden/vae/*.json tests/golden/lora/*.json tests/golden/data/*.json)
golden: $(VERIFY)  ## the engine against numbers from the models' authors' code
	@$(VERIFY) $(GOLDEN)

# Processors that this machine may not be: see tests/cpus/run.sh.  An emulator takes long over the rest.
CPU_TESTS := $(foreach n,processor conv conv2d heads update,$(call unit,$(n)))
CPU_MORE  := $(foreach n,norm pointwise matmul rmsmod attention decoder,$(call unit,$(n)))
cpus cpus-all: $(BIN)/jobctl $(BIN)/jobctl-train $(VERIFY) $(OBJ)/tests/cpus/portable $(CPU_TESTS)
cpus:  ## the engine as on processors without AVX, with AVX2, with AVX-512
	@$(if $(X86),tests/cpus/run.sh $(BIN) $(OBJ)/tests/cpus/portable $(CPU_TESTS),echo "not an x86-64 processor: skipped")

cpus-all: $(CPU_MORE)
	@ALL_CASES=1 tests/cpus/run.sh $(BIN) $(OBJ)/tests/cpus/portable $(CPU_TESTS) $(CPU_MORE)

# The compiler of the systems that notebook VMs have; it once got vectors wrong that a newer one gets right.
OLDER := $(patsubst $(OBJ)/%,build/gcc-11/obj/%,$(foreach t,attention conv conv2d rope matmul norm pointwise rmsmod update step,$(call unit,$(t))))
older:  ## the engine and its numbers once more through gcc 11
	@command -v gcc-11 >/dev/null || { echo "no gcc-11 found: skipped"; exit 0; }; \
	$(MAKE) --no-print-directory -j$(JOBS) CC=gcc-11 NVCC= build/gcc-11/bin/jobctl-verify $(OLDER) && \
	tests/run_units.sh $(OLDER) && build/gcc-11/bin/jobctl-verify $(GOLDEN)

cuda-cpu: $(BIN)/jobctl-train $(VERIFY) $(KERNELS) $(FAKE_NCCL) $(call unit,memory) $(if $(have_cxx),$(CUDA_CPU) $(CUDA_WATCHED))  ## CUDA kernels run on the CPU, thread by thread, their races seen
	@$(if $(have_cxx),tests/cuda_cpu/run.sh $(BIN) $(CUDA_CPU) $(KERNELS) $(call unit,memory) \
	  $(firstword $(FAKE_NCCL)) $(CUDA_WATCHED) $(SWEEP),echo "no $(CXX) found: skipped")
	@$(if $(have_cxx),$(MAKE) --no-print-directory planted,:)

# Which of the faults: all, a number, or other ten with each commit.
PLANTS ?= ten
planted: $(BIN)/jobctl-train $(VERIFY) $(KERNELS) $(FAKE_NCCL) $(CUDA_PLANTED)  ## faults in the CUDA kernels: is each found? (PLANTS=all)
	@tests/cuda_cpu/plant/run.sh $(PLANTS) $(BIN) $(CUDA_PLANTED) $(KERNELS) $(call unit,memory) $(firstword $(FAKE_NCCL))

ptx: $(PTX_TEST) $(if $(HAVE_NVCC),$(BIN)/jobctl-train $(VERIFY) $(KERNELS) $(CUDA_PTX))  ## CUDA kernels as nvcc compiled them, interpreted; what they cost, counted
	@tests/run_units.sh $(PTX_TEST)
	@$(if $(HAVE_NVCC),$(PTX)/run.sh $(BIN) $(CUDA_PTX) $(KERNELS) $(SWEEP),echo "ptx: not run: $(NO_NVCC)")
	@$(if $(HAVE_NVCC),$(PTX)/counts.sh $(CUDA_PTX) $(KERNELS) $(NVCC_VERSION),:)
	@$(if $(and $(HAVE_NVCC),$(filter all,$(SWEEP))),$(PTX)/step.sh $(CUDA_PTX) $(BIN) $(NVCC_VERSION),:)

check-gpu: $(BIN)/jobctl-train $(VERIFY) $(KERNELS) $(if $(HAVE_NVCC),$(CUDA))  ## where there is a GPU: kernels, golden numbers, speed
	@tests/gpu/run.sh $(BIN) $(CUDA) $(KERNELS)

e2e: $(PROGRAMS) $(VERIFY) $(ATTACK) $(if $(have_cxx),$(CUDA_CPU))  ## end-to-end tests through the command line
	@tests/run_e2e.sh $(BIN)

house: $(BIN)/jobctl $(BIN)/jobctl-agent $(BIN)/jobctl-train  ## are docs/HOUSE.md and all that documents name still true?
	@tests/check_house.sh
	@tests/check_docs.sh . $(BIN)

# Compilers of one large file each run beside others: alone, each would leave the other processors idle.
CUDA_BEDS := $(if $(have_cxx),$(CUDA_CPU) $(CUDA_WATCHED) $(CUDA_PLANTED)) $(if $(HAVE_NVCC),$(CUDA_PTX))
IN_PARALLEL = $(MAKE) --no-print-directory -j$(JOBS)
test:  ## everything: units, golden numbers, simulation, end to end, sanitizers
	@deploy/try.sh test $(BIN)

everything:
	@$(IN_PARALLEL) $(CUDA_BEDS) all units processes
	@$(IN_PARALLEL) check
	@$(IN_PARALLEL) house
	@$(MAKE) --no-print-directory golden
	@$(MAKE) --no-print-directory cpus
	@$(MAKE) --no-print-directory older
	@$(IN_PARALLEL) cuda-cpu
	@$(IN_PARALLEL) ptx
	@$(IN_PARALLEL) sim
	@$(MAKE) --no-print-directory e2e
	@$(IN_PARALLEL) clang
	@$(MAKE) --no-print-directory asan

clang: $(if $(shell command -v clang),$(CLANG_SRCS:%=clang/%) $(HDRS:%=clang/%))  ## every source and header once more through clang's warnings
	@command -v clang >/dev/null || echo "no clang found: skipped"

clang/%.c: FORCE $(OBJ)/flags
	@clang $(FLAGS) $(FLAGS_main) -DJOBCTL_VERSION='"$(VERSION)"' -Wno-unknown-warning-option $(FLAGS_clang) -fsyntax-only $*.c

clang/%.h: FORCE $(OBJ)/flags
	@clang $(FLAGS) -Wno-unused-function -fsyntax-only -x c $*.h

soak: $(PROGRAMS) $(ATTACK) $(SIMS)  ## the tests that take long: three seeds of the demo, ten thousand steps, many simulations
	@$(MAKE) --no-print-directory sim SEEDS=150000
	@$(MAKE) --no-print-directory cpus-all
	@$(MAKE) --no-print-directory cuda-cpu PLANTS=all SWEEP=all
	@$(MAKE) --no-print-directory ptx SWEEP=all
	@TEST_STRICT=1 E2E_TIMEOUT=7200 tests/run_e2e.sh $(BIN) $(wildcard tests/soak/*.sh)
	@$(MAKE) --no-print-directory tsan
	@$(MAKE) --no-print-directory -j$(JOBS) decoders PICTURES=1000000 SANITIZE=address,undefined

# Programs that have threads, or talk to those that have; a report is in the log of its program, so it ends the program.
TSAN_E2E := 0100-hello 0110-cli 0300-daemon-kill 0305-resume-bits 0306-checkpoint-meanwhile 0340-agent-kill 0360-queue \
            0400-ranks 0430-hang 0440-snapshot 0460-nan
tsan:  ## daemon, agents and engine under the thread sanitizer: tests of units, of processes, and some end to end
	@$(MAKE) --no-print-directory -j$(JOBS) all units processes NVCC= SANITIZE=thread
	@$(MAKE) --no-print-directory tsan-run NVCC= SANITIZE=thread

tsan-run: $(UNITS) $(PROCESSES) $(PROGRAMS)
	@TEST_STRICT=1 tests/run_units.sh $(UNITS) $(PROCESSES)
	@TSAN_OPTIONS=second_deadlock_stack=1 TEST_PATIENCE=4 E2E_TIMEOUT=1800 \
	  TEST_STRICT=1 tests/run_e2e.sh $(BIN) $(TSAN_E2E:%=tests/e2e/%.sh)

asan:  ## the unit tests and the fuzzers' corpus again, under address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory -j$(JOBS) all units processes SANITIZE=address,undefined
	@$(IN_PARALLEL) check SANITIZE=address,undefined
	@$(IN_PARALLEL) sim corpus decoders SEEDS=400 PICTURES=20000 SANITIZE=address,undefined

# Others in each run; what fails prints how to repeat it.
PICTURES := 100000
decoders: $(DECODERS)  ## damaged pictures at the decoders; PICTURES of them
	@$< $$(od -An -N4 -tu4 /dev/urandom) $(PICTURES)

corpus: $(FUZZERS)  ## every input that a fuzzer ever found worth keeping, once more
	@tests/fuzz/run.sh replay $(FUZZERS)

fuzz:  ## each parser of outside bytes under libFuzzer, FUZZ_SECONDS=60 each; needs clang
	@$(MAKE) --no-print-directory fuzzers CC=clang SANITIZE=fuzzer-no-link,address,undefined
	@tests/fuzz/run.sh fuzz $(FUZZ_SECONDS) \
	  $(patsubst tests/fuzz/%.c,build/clang-fuzzer-no-link-address-undefined/obj/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

fuzzers: $(FUZZERS)

bench: $(BIN)/jobctl-train  ## the engine against PyTorch on the same model, turn by turn
	@tests/bench/compare.sh $(BIN)
	@tests/bench/vae.sh $(BIN)

bench-weights: $(OBJ)/tests/bench/weights  ## initial weights of Sana-1600M, beside one core that draws number by number
	@$<

bench-store: $(BIN)/jobctl $(BIN)/jobctl-agent $(OBJ)/tests/bench/load  ## durable submits, latency of commands
	@tests/bench/submits.sh $(BIN) $(OBJ)/tests/bench/load

bench-restart: $(PROGRAMS)  ## how soon a rank that died or hangs is noticed, and the next one runs
	@tests/bench/restart.sh $(BIN)
	@tests/bench/faults.sh $(BIN)

bench-scale: $(BIN)/jobctl $(BIN)/jobctl-agent $(OBJ)/tests/bench/agents  ## a controller of 1,000 agents; 100,000 finished and 20,000 queued jobs
	@tests/bench/scale.sh $(BIN) $(OBJ)/tests/bench/agents
	@tests/bench/queue.sh $(BIN) $(OBJ)/tests/bench/agents

bench-hosts: $(BIN)/jobctl $(BIN)/jobctl-agent $(if $(HAVE_SSH),$(BIN)/jobctl-ssh)  ## agents on 4 and on 64 hosts over SSH, beside plain ssh
	@tests/bench/hosts.sh $(BIN)

.PHONY: bench-slurm
bench-slurm: $(BIN)/jobctl $(BIN)/jobctl-agent $(if $(HAVE_SLURM),$(BIN)/jobctl-slurm)  ## submissions to Slurm, beside sbatch
	@tests/bench/slurm.sh $(BIN)

bench-dist: $(OBJ)/tests/bench/dist  ## collectives of 2 and 4 ranks here, beside plain copies
	@$<

bootstrap:
	@deploy/bootstrap.sh

release-check:  ## the README's first lines on bare Debian and Ubuntu: CELLS="debian-13/nothing ..."; needs root
	@deploy/release_check.sh $(CELLS)

demo:  ## train a small Sana on icons, here and now, and look at what it learned
	@deploy/try.sh demo $(BIN)

demo-sana:  ## the path of a Sana fine-tune at toy size: encoders, adapters, pictures of prompts, export
	@deploy/try.sh demo-sana $(BIN)

# The same files for `make install`, the package and the tarball: deploy/install.sh has the list.
INSTALL := deploy/install.sh
install: all man completions  ## programs, manuals, completions, templates, documents below PREFIX (/usr/local)
	@$(INSTALL) install '$(BUILD)' '$(DESTDIR)' '$(PREFIX)' $(notdir $(PROGRAMS))

uninstall:  ## remove what `make install` with the same PREFIX and DESTDIR put there
	@$(INSTALL) uninstall '$(BUILD)' '$(DESTDIR)' '$(PREFIX)' $(notdir $(PROGRAMS))

completions: $(BIN)/jobctl
	@mkdir -p $(BUILD)/completions
	@set -e; for shell in bash zsh fish; do $(BIN)/jobctl completions $$shell >$(BUILD)/completions/$$shell; done

man: $(BIN)/jobctl $(BIN)/jobctl-agent $(BIN)/jobctl-train  ## the manual pages, into build/man
	@rm -rf $(BUILD)/man; mkdir -p $(BUILD)/man
	@set -e; for page in $$($(BIN)/jobctl help pages); do $(BIN)/jobctl help man $$page >$(BUILD)/man/$$page; done

deb:  ## a Debian package of this tree, into build/; needs debhelper
	@COMMIT='$(COMMIT)' DATE='$(DATE)' deploy/deb.sh '$(abspath $(BUILD))' '$(VERSION)'

dist:  ## a tarball that runs wherever it is unpacked, into build/; built in a Debian 11, needs root
	@deploy/dist.sh '$(VERSION)' '$(COMMIT)' '$(DATE)'

clean:  ## remove build/
	rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo "  found: $(CC), $(if $(HAVE_NVCC),nvcc $(NVCC_VERSION),$(NO_NVCC): kernels run on the CPU)"

# An object depends on its source, on the headers the compiler saw (-MMD) and
# on the flags: changing CFLAGS rebuilds all of it, changing nothing nothing.  (+: also with -n, which is to list no more
# than is to do.)
# Missing libraries are named here, before the first object is compiled.
$(OBJ)/flags: FORCE
	+@$(if $(MISSING),rm -f $(BUILD)/libs.mk; \
	  echo "not found: $(MISSING). This installs what is missing:  deploy/bootstrap.sh$(if $(TESTING), --tests)" >&2; exit 1)
	+@mkdir -p $(@D)
	+@echo '$(CC) $(FLAGS) $(VERSION) $(FLAGS_kernels) $(FLAGS_simd) $(FLAGS_engine)' | cmp -s - $@ || \
	  echo '$(CC) $(FLAGS) $(VERSION) $(FLAGS_kernels) $(FLAGS_simd) $(FLAGS_engine)' >$@

$(OBJ)/built_from: FORCE
	+@mkdir -p $(@D); echo '$(COMMIT) $(DATE)' | cmp -s - $@ || echo '$(COMMIT) $(DATE)' >$@
$(DIRS:%=$(OBJ)/%/main.o): $(OBJ)/built_from

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $<")
	$(Q)$(CC) $(FLAGS) -DJOBCTL_VERSION='"$(VERSION)"' $(FLAGS_$(firstword $(subst /, ,$<))) $(if $(filter %/main.c,$<),$(FLAGS_main)) -MMD -MP -c -o $@ $<

# The SQL is assembled into the object.
$(call object,migrate.c): $(wildcard db/migrate/*.sql)
$(call object,packing.c): db/packing.dict
$(call object,sbatch.c): templates/slurm.sbatch
$(call object,glossary.c): docs/GLOSSARY.md
$(call object,assets.c): $(wildcard controller/dashboard/assets/* controller/dashboard/uplot/*)

$(OBJ)/%.avx2.o: %.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $< (avx2)")
	$(Q)$(CC) $(FLAGS) $(FLAGS_kernels) $(FLAGS_simd) -march=x86-64-v3 -DKERN_SUFFIX=avx2 \
	  -MMD -MP -c -o $@ $<

$(OBJ)/%.avx512.o: %.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $< (avx512)")
	$(Q)$(CC) $(FLAGS) $(FLAGS_kernels) $(FLAGS_simd) -march=x86-64-v4 \
	  -mprefer-vector-width=512 -DKERN_SUFFIX=avx512 -MMD -MP -c -o $@ $<

define library
$(OBJ)/lib$(1).a: $(filter $(OBJ)/$(1)/%,$(OBJS))
	@rm -f $$@; ar qcs $$@ $$^
endef
$(foreach d,$(DIRS),$(eval $(call library,$(d))))

$(BIN)/jobctl: $(OBJ)/controller/main.o $(call libs,controller db agent engine)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(CTL_LD) $(RPATH)

$(BIN)/jobctl-agent: $(OBJ)/agent/main.o $(call libs,agent engine)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(AGENT_LD)

$(BIN)/jobctl-train: $(OBJ)/engine/main.o $(call libs,engine kernels)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(TRAIN_LD)

$(OBJ)/libverify.a: $(VERIFY_SRCS:%.c=$(OBJ)/%.o)
	@rm -f $@; ar qcs $@ $^

$(VERIFY): $(OBJ)/tests/verify/main.o $(OBJ)/libverify.a $(call libs,engine kernels)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(TRAIN_LD)

$(BIN)/jobctl-slurm: $(SLURM_SRCS:%.c=$(OBJ)/%.o) $(call object,err.c) $(call object,utf8.c)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(SLURM_LIBS) -ljansson

$(BIN)/jobctl-ssh: $(SSH_SRCS:%.c=$(OBJ)/%.o) $(call libs,agent engine)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(SSH_LD) $(RPATH)

$(BIN)/jobctl-fetch: $(FETCH_SRCS:%.c=$(OBJ)/%.o) $(call libs,engine)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(FETCH_LD) $(RPATH)

$(NCCLPROF): $(foreach f,ncclprof.c flight.c err.c utf8.c clock.c safe_open.c flight.h err.h utf8.h clock.h safe_open.h,$(call source,$(f))) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -fPIC -shared -fvisibility=hidden -o $@ $(filter %.c,$^) -lpthread -lm

$(OBJ)/nvflags: FORCE
	+@mkdir -p $(@D); echo '$(NVCC) $(NVCC_VERSION) $(NVFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVCC_VERSION) $(NVFLAGS)' >$@

# What ptxas says is the target: where nvcc fails, `all` goes on without the plugin, and what needs the plugin does not.
$(CUDA).ptxas: $(CUDA_SRC) $(OBJ)/nvflags $(if $(wildcard $(CUDA)),,FORCE)
	@mkdir -p $(@D); $(if $(V),,echo "  NVCC $(CUDA)"); rm -f $@ $(CUDA) $(CUDA).failed; \
	echo 'nvcc $(NVCC_VERSION)' >$(CUDA).failed
	$(Q)if $(NVCC) $(NVFLAGS) -shared -o $(CUDA) $(call source,ops_cuda.cu) >>$(CUDA).failed 2>&1; then \
	  mv $(CUDA).failed $@; touch $(CUDA); tests/gpu/resources.sh $@ || :; \
	else rm -f $(CUDA); grep -iE 'error|warning' $(CUDA).failed | head -n 20 | grep . || tail -n 20 $(CUDA).failed; fi

$(CUDA): $(if $(HAVE_NVCC),$(CUDA).ptxas)
	@test -n '$(HAVE_NVCC)' -a -e $@ || { echo "$@ not built: $(NO_CUDA)" >&2; exit 1; }

CUDA_CXX = $(CXX) $(PLANT_DIR) -std=c++17 -g -Wall -Wextra $(WERROR) -fPIC -Itests/cuda_cpu -I.

$(CUDA_CPU_OBJ): $(OBJ)/%.cc.o: %.cc $(wildcard tests/cuda_cpu/*.h)
	@mkdir -p $(@D); $(if $(V),,echo "  CXX  $<")
	$(Q)$(CUDA_CXX) -O2 -c -o $@ $<

$(OBJ)/tests/cuda_cpu/kernels.o: $(CUDA_SRC) $(wildcard tests/cuda_cpu/*.h)
	@mkdir -p $(@D); $(if $(V),,echo "  CXX  $@")
	$(Q)$(CUDA_CXX) -O3 -c -o $@ -x c++ $(call source,ops_cuda.cu)

# Without -fno-tree-sra an access to a pack of four numbers would be four accesses. What a variable has before its first
# value is no zero, where the compiler can do that.
WATCH := -O1 -fno-tree-sra -fsanitize=thread --param tsan-instrument-func-entry-exit=0 \
         -fsanitize=bounds,signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow
NO_ZEROS = $(shell $(CXX) -ftrivial-auto-var-init=pattern -E -x c++ /dev/null >/dev/null 2>&1 && \
             echo -ftrivial-auto-var-init=pattern)
$(OBJ)/tests/cuda_cpu/watched/kernels.o: $(CUDA_SRC) $(wildcard tests/cuda_cpu/*.h)
	@mkdir -p $(@D); $(if $(V),,echo "  CXX  $@")
	$(Q)$(CUDA_CXX) $(WATCH) $(NO_ZEROS) -c -o $@ -x c++ $(call source,ops_cuda.cu)

PLANT := tests/cuda_cpu/plant
$(OBJ)/$(PLANT)/kernels.o: PLANT_DIR = -I$(@D)/src
$(OBJ)/$(PLANT)/kernels.o: $(CUDA_SRC) $(wildcard tests/cuda_cpu/*.h) $(PLANT)/plant.py $(PLANT)/faults.txt
	@mkdir -p $(@D); $(if $(V),,echo "  CXX  $@")
	$(Q)$(PLANT)/plant.py $(PLANT)/faults.txt $(dir $(call source,ops_cuda.cu)) $(@D)/src
	$(Q)$(CUDA_CXX) $(WATCH) $(NO_ZEROS) -c -o $@ -x c++ $(@D)/src/kernels/ops_cuda.cu

$(CUDA_CPU) $(CUDA_WATCHED) $(CUDA_PLANTED): %/libjobctl_cuda.so: %/kernels.o $(CUDA_CPU_OBJ)
	$(Q)$(CXX) -shared -o $@ $^ -ldl

FLAGS_ptx = -O3 -fPIC -fopenmp-simd -ffp-contract=off -frounding-math -fno-math-errno -Wno-psabi
$(OBJ)/$(PTX)/%.o: $(PTX)/%.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $<")
	$(Q)$(CC) $(FLAGS) $(FLAGS_ptx) -MMD -MP -c -o $@ $<

$(OBJ)/$(PTX)/alu.avx2.o: $(PTX)/alu.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $< (avx2)")
	$(Q)$(CC) $(FLAGS) $(FLAGS_ptx) -march=x86-64-v3 -DALU_AVX2 -MMD -MP -c -o $@ $<

$(PTX_TEST): $(OBJ)/%: %.c $(PTX_OBJ) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  TEST $<")
	$(Q)$(CC) $(FLAGS) -MMD -MP -MF $@.d -o $@ $< $(PTX_OBJ) $(TEST_LD) -lm

# nvcc's own headers, but for that of cuBLASLt.
$(OBJ)/$(PTX)/kernels.o: $(CUDA_SRC) $(OBJ)/nvflags tests/cuda_cpu/cublasLt.h
	@mkdir -p $(@D)/include; cp tests/cuda_cpu/cublasLt.h $(@D)/include/; $(if $(V),,echo "  NVCC $@")
	$(Q)$(NVCC) -std=c++17 -O3 -I$(@D)/include -I. -Xcompiler -fPIC,-fvisibility=hidden -cudart none \
	  -gencode arch=compute_80,code=compute_80 -Xfatbin -compress=false -c -o $@ $(call source,ops_cuda.cu)
	$(Q)objcopy --redefine-sym cudaGetDeviceProperties=ptx_properties $@

$(OBJ)/$(PTX)/properties.cc.o: $(PTX)/properties.cc $(OBJ)/nvflags
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -g -O2 -Xcompiler -fPIC,-Wall,-Wextra -c -o $@ $<

$(OBJ)/$(PTX)/cuda.cc.o: $(PTX)/cuda.cc $(wildcard $(PTX)/*.h tests/cuda_cpu/*.h)
	@mkdir -p $(@D); $(if $(V),,echo "  CXX  $<")
	$(Q)$(CUDA_CXX) -O2 -c -o $@ $<

$(CUDA_PTX): $(OBJ)/$(PTX)/kernels.o $(OBJ)/$(PTX)/cuda.cc.o $(OBJ)/$(PTX)/properties.cc.o $(PTX_OBJ) $(CUDA_CPU_OBJ)
	$(Q)$(CXX) -shared -o $@ $^ -ldl

$(KERNELS): tests/gpu/check_kernels.c $(wildcard tests/gpu/*_cases.h) $(call source,cuda.h) $(call source,kernels.h) $(call libs,kernels) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  TEST $<")
	$(Q)$(CC) $(FLAGS) -MMD -MP -MF $@.d -o $@ $< $(call libs,kernels) $(TRAIN_LD)

TEST_LIBS := $(OBJ)/libverify.a $(call libs,$(DIRS))
$(UNITS) $(PROCESSES): $(OBJ)/%: %.c $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  TEST $<")
	$(Q)$(CC) $(FLAGS) -DJOBCTL_VERSION='"$(VERSION)"' -Wno-psabi -MMD -MP -MF $@.d -o $@ $< $(TEST_LIBS) $(TEST_LD) $(ALL_LD)

$(call unit,nccl): $(FAKE_NCCL)
# It counts what is allocated.
$(call unit,vae): TEST_LD += $(foreach f,malloc calloc realloc aligned_alloc free,-Wl$(comma)--wrap=$(f))
$(FAKE_NCCL): tests/fake/nccl.c $(call source,nccl.h) | $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $< ($(@F))")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -O2 -g $(WARN) $(WERROR) -fPIC -shared -pthread \
	  $(if $(findstring old,$@),-DFAKE_NCCL_OLD -Wno-unused-function) -o $@ $<

# Preloaded into the programs under attack, so it has the flags of none of them.
$(ATTACK): tests/attack/faults.c tests/attack/faults_calls.c tests/attack/alloc.c tests/attack/faults.h
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $@")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -O2 -g -Wall -Wextra $(WERROR) -fno-builtin -fPIC -shared -pthread \
	  -o $@ $(filter %.c,$^) -ldl

$(OBJ)/tests/sim/%: tests/sim/%.c $(SIM_SRCS) tests/sim/world.h $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  SIM  $<")
	$(Q)$(CC) $(FLAGS) -Wl,--wrap=job_fsm_step -o $@ $< $(SIM_SRCS) $(TEST_LIBS) $(ALL_LD)

$(OBJ)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/replay.c tests/fuzz/target.h $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  FUZZ $<")
	$(Q)$(CC) $(FLAGS) $(if $(FUZZING),-fsanitize=fuzzer) -MMD -MP -MF $@.d -o $@ $< \
	  $(if $(FUZZING),,tests/fuzz/replay.c) $(TEST_LIBS) $(ALL_LD)

$(DECODERS): tests/attack/decoders.c tests/fuzz/fuzz_image.c tests/fuzz/target.h $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  TEST $<")
	$(Q)$(CC) $(FLAGS) -o $@ $(filter %.c,$^) $(TEST_LIBS) $(ALL_LD)

$(OBJ)/tests/cpus/%: tests/cpus/%.c $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  TEST $<")
	$(Q)$(CC) $(FLAGS) -MMD -MP -MF $@.d -o $@ $< $(TEST_LIBS) $(ALL_LD)

$(OBJ)/tests/bench/%: tests/bench/%.c $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $<")
	$(Q)$(CC) $(FLAGS) -DJOBCTL_VERSION='"$(VERSION)"' -o $@ $< $(TEST_LIBS) $(ALL_LD)

-include $(OBJS:.o=.d) $(VERIFY_SRCS:%.c=$(OBJ)/%.d) $(SLURM_SRCS:%.c=$(OBJ)/%.d) $(SSH_SRCS:%.c=$(OBJ)/%.d) $(FETCH_SRCS:%.c=$(OBJ)/%.d) $(wildcard $(OBJ)/*/main.d $(OBJ)/tests/verify/main.d) $(UNITS:=.d) $(PROCESSES:=.d) $(FUZZERS:=.d) $(OBJ)/tests/cpus/portable.d
FORCE:
.PHONY: all cuda-cpu planted check-gpu house check units processes layers pure circles guards baseline resources toolkits sim golden cpus cpus-all older e2e test everything soak asan tsan tsan-run corpus decoders fuzz fuzzers bench bench-weights bench-store bench-restart bench-scale bench-hosts bench-dist bootstrap release-check demo demo-sana install uninstall man completions deb dist clean help FORCE
