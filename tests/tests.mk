# SPDX-License-Identifier: Apache-2.0
# tests.mk - the Makefile's part for tests: their programs, and the targets that run them

# A test program beside them, which is not installed: the engine against numbers of the models' authors.
VERIFY   := $(BIN)/jobctl-verify
VERIFY_SRCS := $(filter-out %/main.c,$(wildcard tests/verify/*.c))
UNITS    := $(patsubst tests/unit/%.c,$(OBJ)/tests/unit/%,$(sort $(shell find tests/unit -name 'test_*.c')))
PROCESSES := $(patsubst tests/process/%.c,$(OBJ)/tests/process/%,$(sort $(shell find tests/process -name 'test_*.c')))
unit      = $(filter %/test_$(1),$(UNITS))
SIMS     := $(patsubst tests/sim/%.c,$(OBJ)/tests/sim/%,$(wildcard tests/sim/sim_*.c))
SIM_SRCS := $(filter-out tests/sim/sim_% tests/sim/virtual_%,$(wildcard tests/sim/*.c))
# Programs that run whole inside one process, on a virtual clock (tests/sim/virtual_process.h).
VIRTUAL  := $(wildcard tests/sim/virtual_*.c)
VIRTUAL_LD := $(foreach f,pthread_create pthread_join pthread_detach pthread_cond_wait pthread_cond_timedwait \
                pthread_cond_signal pthread_cond_broadcast getrandom time nanosleep,-Wl$(comma)--wrap=$(f))

# Calls that fail on demand: tests/attack/README.md.
ATTACK   := $(OBJ)/tests/attack/faults.so

# A fuzz target is linked with libFuzzer in a build that has it, else with the replayer.
FUZZERS  := $(patsubst tests/fuzz/%.c,$(OBJ)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZING  := $(findstring fuzzer,$(SANITIZE))
DECODERS := $(OBJ)/tests/attack/decoders
FUZZ_SECONDS ?= 60

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

circles: $(SEEN) $(MAINS)
	@tests/check_circles.sh . $(OBJ) $(SEEN)
	@tests/check_prefixes.sh . $(OBJ) $(OBJS)
	@tests/check_opens.sh . $(OBJ) $(OBJS)
	@tests/check_json.sh . $(OBJ) $(SEEN) $(MAINS)

guards:
	@CC='$(CC)' tests/check_guards.sh

baseline: $(OBJS) $(PROGRAMS)
	@tests/check_baseline.sh $(OBJ) '$(CC)'

resources: $(if $(HAVE_NVCC),$(CUDA))
	@$(if $(HAVE_NVCC),tests/gpu/resources.sh $(CUDA).ptxas,echo "  registers of kernels not checked: $(NO_NVCC)")

# Toolkits that this machine does not have, by a stand-in of nvcc.
toolkits: $(BUILD)/libs.mk
	@tests/check_toolkits.sh $<

# The same worlds in every run; `make sim-others` draws others each time; what fails prints how to repeat it.
SEEDS := 10000
sim: $(SIMS:%=run/%)  ## controller and agent on a virtual clock: SEEDS / 40 worlds full of faults each

sim-others: run/others  ## as many worlds that no run had before

$(SIMS:%=run/%): run/%: % FORCE
	@$* $$(($(SEEDS) / 40))

run/others: $(OBJ)/tests/sim/sim_control $(OBJ)/tests/sim/sim_agent FORCE
	@$< $$(($(SEEDS) / 40)) $$(od -An -N4 -tu4 /dev/urandom)
	@$(OBJ)/tests/sim/sim_agent $$(($(SEEDS) / 40)) $$(od -An -N4 -tu4 /dev/urandom)

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

# Faults in sources of the agent, the controller and the engine (tests/README.md).
COUNT ?= 20
SEED  ?= 1
mutants: all tests-built  ## small faults in a room's sources: which does no test notice? (ROOM=controller/job COUNT=20 SEED=1)
	@tests/mutants/mutate.py $(ROOM) $(COUNT) $(SEED)

# Other three with each commit.
mutants-known: all tests-built
	@tests/mutants/mutate.py --known 3

check-gpu: $(BIN)/jobctl-train $(VERIFY) $(KERNELS) $(if $(HAVE_NVCC),$(CUDA))  ## where there is a GPU: kernels, golden numbers, speed
	@tests/gpu/run.sh $(BIN) $(CUDA) $(KERNELS)

e2e: $(PROGRAMS) $(VERIFY) $(ATTACK) $(wildcard $(CUDA_CPU))  ## end-to-end tests through the command line (E2E="tests/e2e/cli/hello.sh ...")
	@tests/run_e2e.sh $(BIN) $(E2E)

house: $(BIN)/jobctl $(BIN)/jobctl-agent $(BIN)/jobctl-train  ## are docs/HOUSE.md and all that documents name still true?
	@tests/check_house.sh
	@tests/check_docs.sh . $(BIN)
	@tests/mutants/mutate.py --known 0

test:  ## the tests that need few more packages than the demo
	@deploy/try.sh test $(BIN)

test-all:  ## all tests: other compilers, sanitizers, CUDA on the CPU, Slurm, containers, a browser (AFTER=test: without those of make test)
	@deploy/try.sh test-all $(BIN)

tests-built: $(UNITS) $(PROCESSES) $(SIMS) $(ATTACK)

# Compilers of one large file each run beside others: alone, each would leave the other processors idle.
more-built: $(if $(have_cxx),$(CUDA_CPU) $(CUDA_WATCHED) $(CUDA_PLANTED)) $(if $(HAVE_NVCC),$(CUDA_PTX))

clang: $(if $(shell command -v clang),$(CLANG_SRCS:%=clang/%) $(HDRS:%=clang/%))  ## every source and header once more through clang's warnings
	@command -v clang >/dev/null || echo "no clang found: skipped"

clang/%.c: FORCE $(OBJ)/flags
	@clang $(FLAGS) $(FLAGS_main) -DJOBCTL_VERSION='"$(VERSION)"' -Wno-unknown-warning-option $(FLAGS_clang) -fsyntax-only $*.c

clang/%.h: FORCE $(OBJ)/flags
	@clang $(FLAGS) -Wno-unused-function -fsyntax-only -x c $*.h

soak: $(PROGRAMS) $(ATTACK) $(SIMS)  ## the tests that take long: three seeds of the demo, ten thousand steps, many simulations
	@$(MAKE) --no-print-directory sim sim-others SEEDS=150000
	@$(MAKE) --no-print-directory cpus-all
	@$(MAKE) --no-print-directory cuda-cpu PLANTS=all SWEEP=all
	@$(MAKE) --no-print-directory ptx SWEEP=all
	@TEST_STRICT=1 E2E_TIMEOUT=7200 tests/run_e2e.sh $(BIN) $(wildcard tests/soak/*.sh)
	@$(MAKE) --no-print-directory tsan
	@$(MAKE) --no-print-directory -j$(JOBS) decoders PICTURES=1000000 SANITIZE=address,undefined

# Programs that have threads, or talk to those that have; a report is in the log of its program, so it ends the program.
TSAN_E2E := cli/hello cli/cli store/daemon-kill train/resume-bits train/checkpoint-meanwhile recovery/agent-kill queue/queue \
            train/ranks hang/hang recovery/snapshot recovery/nan
tsan:  ## daemon, agents and engine under the thread sanitizer: tests of units, of processes, and some end to end
	@$(MAKE) --no-print-directory -j$(JOBS) all units processes NVCC= SANITIZE=thread
	@$(MAKE) --no-print-directory tsan-run NVCC= SANITIZE=thread

tsan-run: $(UNITS) $(PROCESSES) $(PROGRAMS)
	@TEST_STRICT=1 tests/run_units.sh $(UNITS) $(PROCESSES)
	@TSAN_OPTIONS=second_deadlock_stack=1 TEST_PATIENCE=4 E2E_TIMEOUT=1800 \
	  TEST_STRICT=1 tests/run_e2e.sh $(BIN) $(TSAN_E2E:%=tests/e2e/%.sh)

asan:  ## the unit tests and the fuzzers' corpus again, under address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory -j$(JOBS) all units processes SANITIZE=address,undefined
	@$(MAKE) --no-print-directory -j$(JOBS) check SANITIZE=address,undefined
	@$(MAKE) --no-print-directory -j$(JOBS) sim corpus decoders SEEDS=400 PICTURES=20000 SANITIZE=address,undefined

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

bench-slurm: $(BIN)/jobctl $(BIN)/jobctl-agent $(if $(HAVE_SLURM),$(BIN)/jobctl-slurm)  ## submissions to Slurm, beside sbatch
	@tests/bench/slurm.sh $(BIN)

bench-dist: $(OBJ)/tests/bench/dist  ## collectives of 2 and 4 ranks here, beside plain copies
	@$<

$(OBJ)/libverify.a: $(VERIFY_SRCS:%.c=$(OBJ)/%.o)
	@rm -f $@; ar qcs $@ $^

$(VERIFY): $(OBJ)/tests/verify/main.o $(OBJ)/libverify.a $(call libs,engine kernels)
	@mkdir -p $(@D); $(if $(V),,echo "  LD   $@")
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(TRAIN_LD)

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
$(call unit,virtual_uv): $(VIRTUAL) tests/sim/virtual_process.h
$(call unit,virtual_uv): TEST_LD += $(VIRTUAL) $(VIRTUAL_LD)
$(call unit,real_uv): tests/unit/sim/test_virtual_uv.c
$(FAKE_NCCL): tests/fake/nccl.c $(call source,nccl.h) | $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $< ($(@F))")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -O2 -g $(WARN) $(WERROR) -fPIC -shared -pthread \
	  $(if $(findstring old,$@),-DFAKE_NCCL_OLD -Wno-unused-function) -o $@ $<

# Preloaded into the programs under attack, so it has the flags of none of them.
$(ATTACK): tests/attack/faults.c tests/attack/faults_calls.c tests/attack/alloc.c tests/attack/faults.h
	@mkdir -p $(@D); $(if $(V),,echo "  CC   $@")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -O2 -g -Wall -Wextra $(WERROR) -fno-builtin -fPIC -shared -pthread \
	  -o $@ $(filter %.c,$^) -ldl

# What the agent learns from the kernel and from other programs, from a simulated machine.
AGENT_SIM  := $(wildcard tests/sim/agent/*.c)
AGENT_WRAP := subprocess_start cleanup_pass_run process_state usage_get probe_facts doctor_preflight \
              launch_env_free_port oom_kills kernel_log_recent control_group_open waitpid waitid kill pwrite fdatasync \
              reachability_listen reachability_at graceful_stop_begin graceful_stop_look graceful_stop_end graceful_stop_signal_programs stack_dump_end
$(OBJ)/tests/sim/sim_agent: tests/sim/sim_agent.c $(AGENT_SIM) $(VIRTUAL) $(wildcard tests/sim/agent/*.h) \
  tests/sim/virtual_process.h $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  SIM  $<")
	$(Q)$(CC) $(FLAGS) $(AGENT_WRAP:%=-Wl,--wrap=%) -o $@ $< $(AGENT_SIM) $(VIRTUAL) $(TEST_LIBS) $(VIRTUAL_LD) $(ALL_LD)

# The controller's whole code, in a world of agents and people.
SIM_WRAP   := sched_getaffinity replay_all job_fsm_step job_core_step job_store_write job_store_submit job_store_heard \
              store_commit store_commit_group store_rollback
$(OBJ)/tests/sim/sim_control: tests/sim/sim_control.c $(SIM_SRCS) $(VIRTUAL) $(wildcard tests/sim/*.h) $(TEST_LIBS) \
  $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  SIM  $<")
	$(Q)$(CC) $(FLAGS) -DJOBCTL_VERSION='"$(VERSION)"' $(SIM_WRAP:%=-Wl,--wrap=%) -o $@ $< $(SIM_SRCS) $(VIRTUAL) \
	  $(TEST_LIBS) $(VIRTUAL_LD) $(ALL_LD)

$(OBJ)/tests/sim/sim_goodput: tests/sim/sim_goodput.c $(TEST_LIBS) $(OBJ)/flags
	@mkdir -p $(@D); $(if $(V),,echo "  SIM  $<")
	$(Q)$(CC) $(FLAGS) -o $@ $< $(TEST_LIBS) $(ALL_LD)

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

-include $(VERIFY_SRCS:%.c=$(OBJ)/%.d) $(UNITS:=.d) $(PROCESSES:=.d) $(FUZZERS:=.d) $(OBJ)/tests/cpus/portable.d $(OBJ)/tests/verify/main.d
.PHONY: sim-others cuda-cpu planted mutants mutants-known check-gpu house check units processes layers pure circles guards baseline resources toolkits sim golden cpus cpus-all older e2e test test-all tests-built more-built soak asan tsan tsan-run corpus decoders fuzz fuzzers bench bench-weights bench-store bench-restart bench-scale bench-hosts bench-dist bench-slurm
