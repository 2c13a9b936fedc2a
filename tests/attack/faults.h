/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - the page that the driver (faults.py) and the programs under attack share
 *
 * The file named by $FAULTS is mapped by every program that starts with faults.so in LD_PRELOAD.  The driver
 * writes into it which calls of which program are counted and which of them fail; it also records what has happened.
 * Offsets are those of faults.py: change both.
 */
#ifndef TESTS_ATTACK_FAULTS_H
#define TESTS_ATTACK_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of calls.  Those above FAULT_ANYWHERE count wherever they go, the others only below `below`. */
enum fault_kind {
    FAULT_WRITE = 1,    /* write pwrite writev pwritev */
    FAULT_SYNC = 2,     /* fsync fdatasync */
    FAULT_RENAME = 4,   /* rename link symlink and their relatives */
    FAULT_CREATE = 8,   /* open with O_CREAT, mkdir, mkfifo */
    FAULT_OPEN = 16,    /* any other open, opendir */
    FAULT_RESIZE = 32,  /* ftruncate truncate fallocate posix_fallocate */
    FAULT_REMOVE = 64,  /* unlink rmdir remove */
    FAULT_READ = 128,   /* read pread */
    FAULT_DESCRIPTOR = 256, /* whatever makes a descriptor */
    FAULT_PROCESS = 512,    /* fork, pthread_create */
    FAULT_MEMORY = 1024,    /* malloc calloc realloc and their relatives */
    FAULT_LOOK = 2048       /* stat access readdir readlink and their relatives */
};
#define FAULT_ANYWHERE (FAULT_DESCRIPTOR | FAULT_PROCESS | FAULT_MEMORY)

enum { FAULT_SITES = 1 << 14, FAULT_SHORT = 1000 };

struct faults {
    _Atomic uint32_t kinds; /* 0: nothing is counted */
    uint32_t error;         /* errno of a failing call; FAULT_SHORT: half of it is written */
    uint64_t from, until;   /* calls from <= n < until fail, counted from 1 */
    _Atomic uint64_t calls; /* counted so far */
    _Atomic uint64_t hits;  /* failed so far */
    uint32_t find_sites;    /* 1: keep the n of the first call from each place, instead of failing any */
    _Atomic uint32_t n_sites;
    char program[64];       /* say "jobctl daemon": the beginning of name and first argument */
    char below[1024];       /* a real path */
    char what[896];         /* of the first hit: call, path, n */
    char crash[128];        /* of a program that a signal ended: its name and the signal */
    uint32_t sites[FAULT_SITES];
    _Atomic uint64_t seen[FAULT_SITES];
};

/* Does this call fail?  Sets errno if so.  `path` may be NULL with kinds of FAULT_ANYWHERE. */
bool faults_hit(enum fault_kind kind, const char *call, int dir, const char *path);
bool faults_hit_fd(enum fault_kind kind, const char *call, int fd);
/* The hit is to be a part of the write. */
bool faults_short(void);

#endif
