/* SPDX-License-Identifier: Apache-2.0 */
/* timestep_freqs.h - f_i = exp(-ln(10000) i / 128), as the authors' framework rounds it
 *
 * Its vectorised expf is off by one unit in the last place for 15 of the 128,
 * and times a timestep of 999 that shows; so the values are data.
 */
#ifndef ENGINE_TIMESTEP_FREQS_H
#define ENGINE_TIMESTEP_FREQS_H

enum { TIMESTEP_FREQS = 128 };

/* clang-format off */
static const float timestep_freqs[TIMESTEP_FREQS] = {
    0x1.000000p+0f, 0x1.dc73f0p-1f, 0x1.bb5facp-1f, 0x1.9c9758p-1f, 0x1.7ff222p-1f,
    0x1.654a0cp-1f, 0x1.4c7bc0p-1f, 0x1.356656p-1f, 0x1.1feb34p-1f, 0x1.0beddcp-1f,
    0x1.f2a79cp-2f, 0x1.d008c0p-2f, 0x1.afd134p-2f, 0x1.91d648p-2f, 0x1.75f034p-2f,
    0x1.5bf9fep-2f, 0x1.43d136p-2f, 0x1.2d55d4p-2f, 0x1.186a06p-2f, 0x1.04f210p-2f,
    0x1.e5a844p-3f, 0x1.c3f06cp-3f, 0x1.a48fdap-3f, 0x1.875cf8p-3f, 0x1.6c310ep-3f,
    0x1.52e812p-3f, 0x1.3b6080p-3f, 0x1.257b20p-3f, 0x1.111aeep-3f, 0x1.fc49bep-4f,
    0x1.d8ffaap-4f, 0x1.b828c8p-4f, 0x1.999998p-4f, 0x1.7d2990p-4f, 0x1.62b2f0p-4f,
    0x1.4a12aep-4f, 0x1.33281ap-4f, 0x1.1dd4d8p-4f, 0x1.09fc98p-4f, 0x1.ef0a22p-5f,
    0x1.ccab82p-5f, 0x1.acafc6p-5f, 0x1.8eec80p-5f, 0x1.733a30p-5f, 0x1.59742cp-5f,
    0x1.417836p-5f, 0x1.2b2690p-5f, 0x1.166196p-5f, 0x1.030dc4p-5f, 0x1.e222eep-6f,
    0x1.c0a9a2p-6f, 0x1.a18350p-6f, 0x1.84869cp-6f, 0x1.698d24p-6f, 0x1.507312p-6f,
    0x1.39172cp-6f, 0x1.235a74p-6f, 0x1.0f2012p-6f, 0x1.f89a60p-7f, 0x1.d591ccp-7f,
    0x1.b4f7e2p-7f, 0x1.96a16ap-7f, 0x1.7a661cp-7f, 0x1.6020a0p-7f, 0x1.47ae14p-7f,
    0x1.30ee0cp-7f, 0x1.1bc25cp-7f, 0x1.080eeep-7f, 0x1.eb735ap-8f, 0x1.c9548ap-8f,
    0x1.a9942cp-8f, 0x1.8c0814p-8f, 0x1.708934p-8f, 0x1.56f304p-8f, 0x1.3f2398p-8f,
    0x1.28fb5ep-8f, 0x1.145ceap-8f, 0x1.012cf8p-8f, 0x1.dea41ap-9f, 0x1.bd68f4p-9f,
    0x1.9e7c66p-9f, 0x1.81b584p-9f, 0x1.66ee1ap-9f, 0x1.4e02a6p-9f, 0x1.36d21cp-9f,
    0x1.213db0p-9f, 0x1.0d28dap-9f, 0x1.f4f1e0p-10f, 0x1.d22a50p-10f, 0x1.b1cce8p-10f,
    0x1.93aeb2p-10f, 0x1.77a7d4p-10f, 0x1.5d931cp-10f, 0x1.454deep-10f, 0x1.2eb816p-10f,
    0x1.19b3b2p-10f, 0x1.0624dcp-10f, 0x1.e7e344p-11f, 0x1.c603c6p-11f, 0x1.a67e48p-11f,
    0x1.892914p-11f, 0x1.6ddd3cp-11f, 0x1.547688p-11f, 0x1.3cd344p-11f, 0x1.26d428p-11f,
    0x1.125c02p-11f, 0x1.fe9f58p-12f, 0x1.db2bc8p-12f, 0x1.ba2e44p-12f, 0x1.9b7b26p-12f,
    0x1.7ee9acp-12f, 0x1.6453f6p-12f, 0x1.4b96c0p-12f, 0x1.349140p-12f, 0x1.1f24eap-12f,
    0x1.0b3548p-12f, 0x1.f1501ap-13f, 0x1.cec918p-13f, 0x1.aea7c4p-13f, 0x1.90c180p-13f,
    0x1.74eea6p-13f, 0x1.5b0a54p-13f, 0x1.42f232p-13f, 0x1.2c864cp-13f, 0x1.17a8dap-13f,
    0x1.043e50p-13f, 0x1.e459bap-14f, 0x1.c2b91cp-14f,
};
/* clang-format on */

#endif
