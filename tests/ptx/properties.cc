/* SPDX-License-Identifier: Apache-2.0 */
/* properties.cc - cudaGetDeviceProperties() with the struct of the real headers
 *
 * All other types that programs share with tests/cuda_cpu are the same there. In the object of nvcc 13 this function
 * is renamed to ptx_properties(); nvcc 12 calls it cudaGetDeviceProperties_v2().
 */
#include <cuda_runtime_api.h>

#include <string.h>

extern "C" void cuda_cpu_target(char name[256], int *major, int *minor, size_t *shared);
extern "C" cudaError_t ptx_properties(struct cudaDeviceProp *p, int device);

extern "C" cudaError_t ptx_properties(struct cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof(*p));
    cuda_cpu_target(p->name, &p->major, &p->minor, &p->sharedMemPerBlockOptin);
    return cudaSuccess;
}

#if CUDART_VERSION < 13000
extern "C" cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device)
{
    return ptx_properties(p, device);
}
#endif
