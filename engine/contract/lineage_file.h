/* SPDX-License-Identifier: Apache-2.0 */
/* lineage_file.h - the file that names the origin of the checkpoints beside it which have none themselves
 *
 * {"origin": "32 hexadecimal digits"}: the controller writes it where a job of an earlier version, which had no origin,
 * wrote its checkpoints (controller/daemon/origin.h); checkpoints of today have their own
 * (engine/checkpoint/lineage.h).
 */
#ifndef ENGINE_CONTRACT_LINEAGE_FILE_H
#define ENGINE_CONTRACT_LINEAGE_FILE_H

#define LINEAGE_FILE "origin.json"

#endif
