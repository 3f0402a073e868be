// What CUDA and HIP bring along, as far as the kernels of src/cleave/ops/device use it: enough for clang to generate code
// for their devices without either. scripts/check_kernels includes it before the kernels; nothing else does.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

extern "C" {
__device__ float fmaf(float, float, float);
__device__ float sqrtf(float);
__device__ float fabsf(float);
__device__ float copysignf(float, float);
__device__ double sqrt(double);
__device__ double fabs(double);
}

__device__ inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__device__ inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__device__ inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
__device__ inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

struct Index {
  unsigned x;
};
#if defined(__HIP__)
#define threadIdx (Index{(unsigned)__builtin_amdgcn_workitem_id_x()})
#define blockIdx (Index{(unsigned)__builtin_amdgcn_workgroup_id_x()})
#define blockDim (Index{(unsigned)__builtin_amdgcn_workgroup_size_x()})
#define __syncthreads() __builtin_amdgcn_s_barrier()
#else
#define threadIdx (Index{(unsigned)__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx (Index{(unsigned)__nvvm_read_ptx_sreg_ctaid_x()})
#define blockDim (Index{(unsigned)__nvvm_read_ptx_sreg_ntid_x()})
#endif
