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
PREPARES := demo demo-sana test test-all bootstrap release-check help clean
ifneq ($(or $(filter-out $(PREPARES),$(MAKECMDGOALS)),$(if $(MAKECMDGOALS),,all)),)
include $(BUILD)/libs.mk
endif
TESTING  := $(filter check units processes tests-built asan ptx cpus cuda-cpu,$(MAKECMDGOALS))
MISSING  := $(strip $(LIBS_MISSING) $(if $(TESTING),$(TEST_MISSING)))
FLAGS    += $(LIBS_CFLAGS)

# Where jobctl, jobctl-ssh and jobctl-fetch look for their libraries first, those of other libraries included.
RPATH    := -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib'

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
MAINS    := $(patsubst %.c,$(OBJ)/%.o,$(filter %/main.c,$(CLANG_SRCS)))
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

# NCCL's profiler plugin: loaded by any NCCL, so it depends on nothing but libc.
NCCLPROF := $(BUILD)/lib/libjobctl_ncclprof.so

include tests/tests.mk

# Who has built the kernels for the CPU once gets them anew with `all`: a single end-to-end test takes what is there.
all: $(PROGRAMS) $(VERIFY) $(NCCLPROF) $(if $(HAVE_NVCC),$(CUDA).ptxas) $(wildcard $(CUDA_CPU))  ## build every program this machine can build, into build/bin
	@test -n '$(HAVE_NVCC)' -a -e $(CUDA) || echo "  CUDA kernels not built, jobs run on the CPU: $(NO_CUDA)"
	@$(if $(filter libwebp,$(LIBS_LACKING)),echo "  no libwebp found: WebP pictures cannot be read",:)
	@$(if $(HAVE_SLURM),:,echo "  no libslurm found: launch: slurm needs jobctl-slurm, which is not built")
	@$(if $(HAVE_SSH),:,echo "  no libssh found: jobs run on this machine only")
	@$(if $(AGENT_SHARED),echo "  static $(AGENT_SHARED) not found: jobctl-agent needs $(AGENT_SHARED:=.so) on each host",:)
	@$(if $(TRAIN_SHARED),echo "  static $(TRAIN_SHARED) not found: jobctl-train needs $(TRAIN_SHARED:=.so) on each host",:)

bootstrap:
	@deploy/bootstrap.sh

release-check:  ## the README's first lines on bare Debian and Ubuntu: CELLS="debian-13/nothing ..."; needs root
	@deploy/release_check.sh $(CELLS)

demo:  ## train a small Sana on icons, here and now, and look at what it learned
	@deploy/try.sh demo $(BIN)

demo-sana:  ## the path of a Sana fine-tune at toy size: encoders, adapters, pictures of prompts, export
	@deploy/try.sh demo-sana $(BIN)

# The same files for `make install`, the package, the tarball and the wheel: deploy/install.sh has the list.
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

# Beside them; those of other versions are not removed.
SUMS = cd $(BUILD) && find jobctl[-_]* -maxdepth 0 -type f | LC_ALL=C sort | xargs sha256sum >SHA256SUMS

deb:  ## a Debian package of this tree, into build/; needs debhelper
	@COMMIT='$(COMMIT)' DATE='$(DATE)' deploy/deb.sh '$(abspath $(BUILD))' '$(VERSION)'
	@$(SUMS)

PACK ?= all
pack: all man completions  ## a tarball and a wheel of this build, into build/, for a C library as new as this one's (PACK=wheel)
	@deploy/pack.sh $(PACK) '$(BUILD)' '$(VERSION)' '$(DATE)' $(filter-out jobctl-slurm,$(notdir $(PROGRAMS)))
	@$(SUMS)

wheel:  ## the tarball and the wheel of a release, into build/: built in a Debian 11, needs root
	@deploy/dist.sh build '$(VERSION)' '$(COMMIT)' '$(DATE)'
	@$(SUMS)

dist: wheel  ## the same, and tried on bare Debian and Ubuntu
	@deploy/dist.sh try '$(VERSION)'

clean:  ## remove build/
	rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' Makefile tests/tests.mk | expand -t 20
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
	+@mkdir -p $(@D); echo "$(COMMIT) $(DATE) $(RPATH)" | cmp -s - $@ || echo "$(COMMIT) $(DATE) $(RPATH)" >$@
$(DIRS:%=$(OBJ)/%/main.o): $(OBJ)/built_from

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $<")
	$(Q)$(CC) $(FLAGS) -DJOBCTL_VERSION='"$(VERSION)"' $(FLAGS_$(firstword $(subst /, ,$<))) $(if $(filter %/main.c,$<),$(FLAGS_main)) -MMD -MP -c -o $@ $<

# The SQL is assembled into the object.
$(call object,schema.c): db/schema.sql
$(call object,sbatch.c): templates/slurm.sbatch
$(call object,glossary.c): docs/GLOSSARY.md
$(call object,assets.c): $(wildcard controller/dashboard/*/*)

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

$(BIN)/jobctl-slurm: $(SLURM_SRCS:%.c=$(OBJ)/%.o) $(foreach f,err.c utf8.c json_text.c json_make.c,$(call object,$(f)))
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

-include $(OBJS:.o=.d) $(SLURM_SRCS:%.c=$(OBJ)/%.d) $(SSH_SRCS:%.c=$(OBJ)/%.d) $(FETCH_SRCS:%.c=$(OBJ)/%.d) $(wildcard $(OBJ)/*/main.d)
FORCE:
.PHONY: all bootstrap release-check demo demo-sana install uninstall man completions deb pack wheel dist clean help FORCE
