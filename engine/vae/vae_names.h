/* SPDX-License-Identifier: Apache-2.0 */
/* vae_names.h - the names that diffusers gives the tensors of a DC-AE
 *
 * The joint matrix of queries, keys and values becomes three, each a third of its rows.
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_VAE_VAE_NAMES_H
#define ENGINE_VAE_VAE_NAMES_H

enum { VAE_NAME = 128, VAE_NAME_PARTS = 3 };

/* The tensors whose rows, concatenated, form the authors' tensor: 1 or 3 of them; 0: no such name. */
int vae_names_diffusers(char out[VAE_NAME_PARTS][VAE_NAME], const char *authors);

#endif
