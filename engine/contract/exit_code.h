/* SPDX-License-Identifier: Apache-2.0 */
/* exit_code.h - exit codes of a rank, one per cause of failure
 *
 * jobctl-train exits with one of these; the agent turns it into a cause
 * (agent/core/cause.h).  A `run:` command may use them too and is treated alike.
 * The numbers are a contract: never reuse one.
 */
#ifndef ENGINE_CONTRACT_EXIT_CODE_H
#define ENGINE_CONTRACT_EXIT_CODE_H

enum exit_code {
    EXIT_DONE        = 0,
    EXIT_CONFIG      = 64, /* configuration or command line */
    EXIT_DATA        = 65, /* training data missing or malformed */
    EXIT_CHECKPOINT  = 66, /* writing or reading a checkpoint failed */
    EXIT_NO_DEVICE   = 67, /* no usable device */
    EXIT_BUG         = 70, /* a bug in jobctl */
    EXIT_HOST_MEMORY = 71, /* out of host memory */
    EXIT_GPU_MEMORY  = 72, /* out of GPU memory */
    EXIT_GPU_FAULT   = 73, /* the GPU's hardware failed: an uncorrectable memory error, an NVLink error */
    EXIT_COLLECTIVE  = 74, /* a collective failed or timed out */
    EXIT_ABORTED     = 75, /* stopped on request, state saved where possible */
    EXIT_NAN         = 76, /* NaN or Inf in loss or gradients */
    EXIT_DESYNC      = 77, /* ranks disagree on the current step */
    EXIT_DISK_FULL   = 78,
    EXIT_IO          = 79, /* a disk or network file system failed: EIO, ESTALE */
    EXIT_LIMIT       = 80, /* out of file descriptors, processes or threads: EMFILE */
    EXIT_DIR_IN_USE  = 81, /* another job has taken over the checkpoint directory (fence.h) */
    EXIT_NETWORK     = 82, /* a download failed: no network, or a server that does not answer */
    EXIT_CUDA        = 83  /* a CUDA call failed, for example by an illegal memory access; the GPU may be healthy */
};

struct err;

/* The exit code of an error whose cause is known only by its err code and errno value. */
int exit_code_of(const struct err *err);

#endif
