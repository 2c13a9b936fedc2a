/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - table of failure patterns, and its lookup; see rules.h */
#include "agent/core/rules.h"

#include <ctype.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { LINE_MAX_BYTES = 2000 };

/* clang-format off */
static const struct rule rules[] = {
    /* --- scheduler --- */
    {"slurm.time", RULE_PROOF, CAUSE_TIME_LIMIT,
     "CANCELLED AT .* DUE TO TIME LIMIT|[Jj]ob killed: walltime .* exceeded|TERM_RUNLIMIT",
     "raise the time limit, or save checkpoints more often (checkpoint.every)"},
    {"slurm.node", RULE_PROOF, CAUSE_NODE_LOST,
     "CANCELLED AT .* DUE TO NODE FAILURE|srun: error: Node failure on",
     NULL},
    {"slurm.oom", RULE_PROOF, CAUSE_HOST_OOM,
     "[Dd]etected [0-9]+ oom[-_]kill event|task [0-9]+: Out Of Memory",
     "request more memory or use fewer data workers"},
    {"slurm.preempted", RULE_PROOF, CAUSE_PREEMPTED,
     "DUE TO PREEMPTION|CANCELLED AT|[Pp]reemption notice|[Ss]pot (instance )?interruption|"
     "TERM_PREEMPT",
     NULL},

    /* --- kernel and GPU. A gpu_fault is a word of the hardware or its driver: it excludes the GPU at once. The Xids
     *     are those after which NVIDIA's catalog requires a reset, a reboot or a repair; 13, 31, 43, 45, 94 and 109 (a
     *     context that does not yield) end a program, and the next one may use the GPU --- */
    {"kernel.xid", RULE_PROOF, CAUSE_GPU_FAULT,
     "NVRM: Xid \\(.*\\): (46|48|62|64|74|79|95|119|120|136|140|143|158),?",
     "reset or replace this GPU before using it again"},
    {"kernel.sxid", RULE_PROOF, CAUSE_GPU_FAULT,
     "SXid \\(PCI:[^)]*\\): [0-9]+, Fatal",
     "check the NVSwitch of this node"},
    {"kernel.oom", RULE_PROOF, CAUSE_HOST_OOM,
     "Out of memory: Killed process|oom-kill:|Memory cgroup out of memory",
     "use fewer data workers, a smaller batch or a machine with more memory"},
    {"gpu.ecc", RULE_PROOF, CAUSE_GPU_FAULT,
     "uncorrectable ECC error|ECC_UNCORRECTABLE|ECCUncorrectable",
     "reset or replace this GPU before using it again"},
    {"gpu.nvlink", RULE_PROOF, CAUSE_GPU_FAULT,
     "uncorrectable NVLink error|NvlinkUncorrectable",
     "check the NVLinks of this node (nvidia-smi nvlink -e)"},
    {"gpu.lost", RULE_PROOF, CAUSE_GPU_FAULT,
     "GPU is lost|fallen off the bus|device is lost",
     "reboot the node"},
    {"gpu.fabric", RULE_PROOF, CAUSE_CUDA_ERROR,
     "system not yet initialized|SYSTEM_NOT_READY|P2P is disabled between NVLINK connected GPUs",
     "check that nvidia-fabricmanager is running on the node"},
    {"gpu.busy", RULE_PROOF, CAUSE_CUDA_ERROR,
     "CUDA-capable device\\(s\\) is/are busy or unavailable",
     "find the process that holds the GPU with nvidia-smi and end it"},
    {"gpu.nvml", RULE_PROOF, CAUSE_CUDA_ERROR,
     "Failed to initialize NVML: Unknown Error",
     "restart the container; it has lost access to its GPUs"},

    /* --- memory --- */
    {"nccl.duplicate", RULE_PROOF, CAUSE_DUPLICATE_GPU,
     "Duplicate GPU detected|Multiple Ranks are using the same GPU",
     "start at most one rank per GPU (resources.ranks: auto) and let each use cuda:LOCAL_RANK"},
    {"cuda.oom", RULE_PROOF, CAUSE_GPU_OOM,
     "CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|"
     "CU(BLAS|DNN)_STATUS_ALLOC_FAILED|HIP out of memory|RESOURCE_EXHAUSTED: Out of memory|"
     "Cuda failure [0-9 ]*'out of memory'",
     "try a smaller micro-batch or gradient checkpointing"},
    {"shm.full", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "out of shared memory|failed to extend /dev/shm|shared memory segment.*No space|"
     "/dev/shm/.*(No space left|\\(28\\))",
     "enlarge /dev/shm (in Docker: --shm-size) or set num_workers=0"},
    {"nccl.memlock", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "Call to ibv_(reg_mr|create_qp|create_cq)[a-z_0-9]* failed",
     "allow locked memory for RDMA: ulimit -l unlimited on the nodes"},
    {"host.oom", RULE_PROOF, CAUSE_HOST_OOM,
     "^MemoryError|DefaultCPUAllocator: |Cannot allocate memory|std::bad_alloc|_ArrayMemoryError|"
     "DataLoader worker \\(pid.*\\) is killed by signal: Killed",
     "use fewer data workers, a smaller batch or a machine with more memory"},

    /* --- disks and files --- */
    {"disk.full", RULE_PROOF, CAUSE_DISK_FULL,
     "No space left on device|[Dd]isk quota exceeded|\\[Errno 28\\]|\\[Errno 122\\]",
     "free disk space; checkpoint.keep limits how many checkpoints are kept"},
    {"disk.io", RULE_PROOF, CAUSE_IO_ERROR,
     "\\[Errno 5\\] Input/output error|Stale file handle|Transport endpoint is not connected",
     "check the disk or network file system: see the node's kernel log"},
    {"system.limit", RULE_PROOF, CAUSE_RESOURCE_LIMIT,
     "\\[Errno 24\\] Too many open files|\\[Errno 23\\] |Too many open files in system|"
     "\\[Errno 11\\] Resource temporarily unavailable|can't start new thread|fork: retry: Resource temporarily",
     "raise the limits of files and processes (ulimit -n, ulimit -u), or use fewer data workers"},
    {"checkpoint.torn", RULE_PROOF, CAUSE_CHECKPOINT_ERROR,
     "PytorchStreamReader failed|failed finding central directory|archive is corrupted|"
     "HeaderTooLarge|InvalidHeader|MetadataIncompleteBuffer|UnpicklingError|"
     "EOFError: Ran out of input",
     "resume from the previous checkpoint; this file is truncated"},
    {"checkpoint.shape", RULE_PROOF, CAUSE_CHECKPOINT_ERROR,
     "Error\\(s\\) in loading state_dict|Missing key\\(s\\) in state_dict|size mismatch for ",
     "compare the configurations: the checkpoint belongs to a different model"},
    {"checkpoint.write", RULE_PROOF, CAUSE_CHECKPOINT_ERROR,
     "PytorchStreamWriter failed writing|unexpected pos [0-9]+ vs [0-9]+",
     "check that the checkpoint file system responds and has free space"},

    /* --- numbers --- */
    {"loss.nan", RULE_PROOF, CAUSE_NAN_LOSS,
     "[Ll]oss is (nan|NaN|inf)|NaN or Inf found|FloatingPointError|[Nn]on-finite (loss|gradient|"
     "norm)|is non-finite|"
     "AssertionError: .*([Nn]a[Nn]|isfinite)|returned nan values",
     "try a smaller learning rate, a longer warm-up or gradient clipping"},

    /* --- configuration and environment --- */
    {"python.import", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "^(ModuleNotFoundError|ImportError): |python[0-9.]*: No module named ",
     "install the module in setup:, or activate the right Python environment in run:"},
    {"python.syntax", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "^(SyntaxError|IndentationError|TabError): ",
     NULL},
    {"python.script", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "can't open file '[^']*': \\[Errno 2\\]",
     "check workdir: and the path in run:"},
    {"python.arguments", RULE_PROOF, CAUSE_CONFIG_ERROR,
     ": error: (unrecognized arguments|the following arguments are required|argument )",
     NULL},
    {"yaml.wrong", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "yaml\\.(scanner|parser|constructor)\\.",
     NULL},
    {"image.name", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "manifest unknown|manifest for .* not found|name unknown: |pull access denied|repository does not exist|"
     "requested access to the resource is denied|unauthorized: |invalid reference format|"
     "short-name .* did not resolve",
     "check the name in image:, with its registry; for a private one run `podman login` or `docker login` on the node"},
    {"image.gpus", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "unresolvable CDI devices|could not select device driver .*\\[\\[gpu\\]\\]|nvidia-container-cli: ",
     "install the NVIDIA container toolkit on the node; podman also needs "
     "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"},
    {"image.shell", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "stat /bin/sh: no such file or directory|exec: \"/bin/sh\": |crun: executable file `/bin/sh` not found",
     "use an image with /bin/sh, in which run: is executed"},
    {"image.docker", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "permission denied while trying to connect to the [Dd]ocker",
     "add the user to the group docker on the node, or name another runtime in image.runtime"},
    {"hub.access", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "401 Client Error|403 Client Error|GatedRepoError|RepositoryNotFoundError|"
     "api_key not configured",
     "add the missing token under secrets:"},
    {"hub.name", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "is not a local folder and is not a valid model identifier",
     NULL},
    {"system.library", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "error while loading shared libraries|version `GLIBC[^']*' not found|undefined symbol: ",
     "install the libraries that the program was built with on this node"},
    {"cuda.none", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "no CUDA-capable device is detected|Found no NVIDIA driver|No CUDA GPUs are available",
     "choose a node with GPUs; `jobctl nodes` lists them"},
    {"cuda.driver", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "driver version is insufficient|Driver/library version mismatch|"
     "forward compatibility was attempted",
     "match the driver to the CUDA libraries; after a driver upgrade, reboot the node"},
    {"cuda.arch", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "no kernel image is available",
     "install a build that supports this GPU's architecture"},
    {"cuda.ordinal", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "invalid device ordinal",
     "set resources.ranks: auto; there are more ranks than visible GPUs"},
    {"nccl.interface", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "[Nn]o (socket |usable listening )?interface found",
     "unset NCCL_SOCKET_IFNAME; it names no interface of this node"},
    {"nccl.version", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "Mismatched NCCL version|NCCL version mismatch",
     "install the same NCCL version on all nodes"},
    {"nccl.gid", RULE_PROOF, CAUSE_CONFIG_ERROR,
     "Call to ibv_modify_qp failed",
     "check NCCL_IB_GID_INDEX: the RDMA address does not reach the peer"},

    /* --- data --- */
    {"data.image", RULE_PROOF, CAUSE_DATA_ERROR,
     "UnidentifiedImageError|image file is truncated|broken data stream when reading image|"
     "cannot identify image file",
     "replace the damaged file of the data set"},
    {"data.archive", RULE_PROOF, CAUSE_DATA_ERROR,
     "tarfile\\.ReadError|BadZipFile|ArrowInvalid|CRC check failed|zlib\\.error",
     "replace the damaged shard of the data set"},
    {"data.missing", RULE_PROOF, CAUSE_DATA_ERROR,
     "^FileNotFoundError: |^NotADirectoryError: ",
     "check that the path exists on this node"},

    /* --- rendezvous, and ranks out of step --- */
    {"desync", RULE_PROOF, CAUSE_DESYNC,
     "[Dd]esync(ed)?: rank|mismatch between collectives on ranks|Mismatched collective|"
     "Rank [0-9]+ is running collective: .* but Rank [0-9]+ is running",
     NULL},
    {"port", RULE_PROOF, CAUSE_NCCL_ERROR,
     "[Aa]ddress already in use|EADDRINUSE|errno: 98",
     "use MASTER_PORT as set by jobctl: a free port is chosen for each generation"},
    {"rendezvous", RULE_ECHO, CAUSE_HANG_INIT,
     "did not (come|connect) within [0-9.]+ s|waiting for clients|RendezvousTimeoutError|"
     "RendezvousConnectionError|"
     "client socket has (timed out|failed to connect)|DistStoreError|wait timeout after [0-9]+ ?ms|"
     "RuntimeError: Socket Timeout",
     "check the logs of the other ranks: one did not start, a firewall blocks it, or the script sets world_size itself "
     "(WORLD_SIZE has the number of ranks)"},
    {"nccl.link", RULE_PROOF, CAUSE_NCCL_ERROR,
     "Got completion from peer .* (status=.*\\(?12|error 12)|async fatal event",
     "check the RDMA links of both nodes"},

    /* --- crashes --- */
    {"torchrun.signal", RULE_PROOF, CAUSE_RANK_CRASH,
     "Signal [0-9]+ \\(SIG(KILL|SEGV|BUS|ABRT|ILL|FPE)\\) received by PID",
     NULL},
    {"python.fatal", RULE_PROOF, CAUSE_RANK_CRASH,
     "^Fatal Python error: (Segmentation fault|Bus error|Illegal instruction)",
     NULL},
    {"heap", RULE_PROOF, CAUSE_RANK_CRASH,
     "double free or corruption|malloc\\(\\): |free\\(\\): invalid|corrupted size vs\\. prev_size|"
     "stack smashing detected",
     NULL},
    {"cuda.kernel", RULE_PROOF, CAUSE_CUDA_ERROR,
     "illegal memory access was encountered|unspecified launch failure|illegal instruction was encountered|"
     "misaligned address|CUDA_ERROR_(ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|LAUNCH_FAILED)",
     "this is a fault of the program, unless it happens on one GPU only: compute-sanitizer shows the kernel and the "
     "access"},

    /* --- echoes: another rank failed or hangs --- */
    {"torch.first", RULE_ECHO, CAUSE_HANG_INIT,
     "Watchdog caught collective operation timeout: WorkNCCL\\(SeqNum=1,",
     "check the path between the GPUs, and whether a rank never entered the first collective"},
    {"torch.watchdog", RULE_ECHO, CAUSE_HANG_STEP,
     "Watchdog caught collective operation timeout|watchdog got stuck for|Timeout at NCCL work|"
     "is stuck or far behind",
     "look at the rank that never entered the collective, not at this rank"},
    {"gloo.timeout", RULE_ECHO, CAUSE_HANG_STEP,
     "Timed out waiting [0-9]+ ?ms for (recv|send) operation",
     NULL},
    {"torch.sigterm", RULE_ECHO, CAUSE_PREEMPTED,
     "got signal: 15|SignalException: Process [0-9]+ got signal|Received 15 death signal|"
     "Received Signals\\.SIGTERM",
     NULL},
    {"nccl.system", RULE_ECHO, CAUSE_NCCL_ERROR,
     "ncclSystemError|unhandled system error",
     NULL},
    {"nccl.remote", RULE_ECHO, CAUSE_NCCL_ERROR,
     "ncclRemoteError|remote process exited or there was a network error|"
     "Connection closed by (remote )?peer|"
     "Connection reset by peer|Broken pipe|Some NCCL operations have failed|rank [0-9]+ (died|"
     "has ended|aborted)",
     NULL},
    {"nccl.connect", RULE_ECHO, CAUSE_NCCL_ERROR,
     "connect to [^ ]+<[0-9]+> (returned|failed)|No route to host|Connection refused",
     "check for a firewall or a wrong network interface"},
    {"nccl.internal", RULE_ECHO, CAUSE_NCCL_ERROR,
     "ncclInternalError|internal error - please report|ncclUnhandledCudaError|unhandled cuda error",
     NULL},
    {"nccl.usage", RULE_ECHO, CAUSE_CONFIG_ERROR,
     "invalid usage|ncclInvalidUsage|ncclInvalidArgument",
     NULL},
    {.name = NULL},
};
/* clang-format on */

const struct rule *rules_all(void)
{
    return rules;
}

/* Is the line the end of a traceback: "torch.cuda.SomeError: text"? */
static bool is_exception(const char *line, size_t len)
{
    static const char *const endings[] = {"Error", "Exception", "Interrupt"};
    size_t n = 0;
    while (n < len && (isalnum((unsigned char)line[n]) || line[n] == '.' || line[n] == '_'))
        n++;
    if (n < len && line[n] != ':')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t k = strlen(endings[i]);
        if (n >= k && memcmp(line + n - k, endings[i], k) == 0)
            return true;
    }
    return false;
}

/* The line of an exception, else the last non-empty line; NULL: none. */
static const char *telling_line(const char *lines, size_t *len)
{
    const char *best = NULL;
    bool exception = false;
    for (const char *p = lines; p && *p;) {
        size_t n = strcspn(p, "\n");
        bool is = is_exception(p, n);
        size_t text = strspn(p, " \t\r");
        if (text < n && (is || !exception)) {
            best = p;
            *len = n;
            exception = is;
        }
        p += n + (p[n] == '\n');
    }
    return best;
}

/* Compiled once; only one thread uses them. */
static const regex_t *compiled(size_t i)
{
    static regex_t all[ARRAY_LEN(rules)];
    static bool done[ARRAY_LEN(rules)];
    if (!done[i])
        done[i] = regcomp(&all[i], rules[i].pattern, REG_EXTENDED | REG_NOSUB) == 0;
    return done[i] ? &all[i] : NULL;
}

static bool matches(size_t rule, const char *line, size_t len)
{
    char text[LINE_MAX_BYTES];
    if (len >= sizeof(text))
        len = sizeof(text) - 1;
    memcpy(text, line, len);
    text[len] = '\0';
    return compiled(rule) && regexec(compiled(rule), text, 0, NULL, 0) == 0;
}

static const struct rule *in_line(const char *line, size_t len)
{
    for (size_t i = 0; rules[i].name; i++)
        if (rules[i].kind != RULE_ECHO && matches(i, line, len))
            return &rules[i];
    return NULL;
}

const struct rule *rules_of_exception(const char *text)
{
    return *text ? in_line(text, strlen(text)) : NULL;
}

static const struct rule *find(const char *lines, bool echoes, const char **line, size_t *len)
{
    size_t n = 0;
    const char *telling = telling_line(lines, &n);
    const struct rule *found = telling && is_exception(telling, n) ? in_line(telling, n) : NULL;
    *line = telling;
    *len = n;
    for (size_t i = 0; !found && lines && rules[i].name; i++)
        for (const char *p = lines; !found && *p;) {
            n = strcspn(p, "\n");
            if ((echoes || rules[i].kind != RULE_ECHO) && matches(i, p, n)) {
                found = &rules[i];
                *line = p;
                *len = n;
            }
            p += n + (p[n] == '\n');
        }
    return found;
}

const struct rule *rules_find(const char *lines, const char **line, size_t *len)
{
    return find(lines, true, line, len);
}

const struct rule *rules_find_proof(const char *lines, const char **line, size_t *len)
{
    return find(lines, false, line, len);
}
