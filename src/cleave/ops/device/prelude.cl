// One source for OpenCL C, CUDA and HIP: what differs between them is in this block of macros.
//
// Results have the bits of the kernels for processors (ops/simd). Hence: multiplications are fused
// with additions exactly where fma is written, sums go into 64 slots as in simd/vector-inl.h, exp, log
// and tanh are our own, and no atomic operation adds anything. A tensor is a byte offset from
// the arena, -1 where there is none. The source is compiled once for elements in f32 and once, with
// CLEAVE_BF16, for elements in bf16; arithmetic is f32 in both.
#if defined(__OPENCL_C_VERSION__)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL __kernel
#define GLOBAL __global
#define LOCAL __local
#define DEVICE static inline
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LANE ((long)get_local_id(0))
#define LANES ((long)get_local_size(0))
#define GROUP ((long)get_group_id(0))
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#define ABS(x) fabs(x)
#define COPY_SIGN(x, y) copysign(x, y)
#define BITS(x) as_int(x)
#define FLOAT(x) as_float(x)
#else
#define KERNEL extern "C" __global__
#define GLOBAL
#define LOCAL __shared__
#define DEVICE __device__ static inline
#define BARRIER __syncthreads()
#define LANE ((long)threadIdx.x)
#define LANES ((long)blockDim.x)
#define GROUP ((long)blockIdx.x)
#define FMA(a, b, c) fmaf(a, b, c)
#define SQRT(x) sqrtf(x)
#define ABS(x) fabsf(x)
#define COPY_SIGN(x, y) copysignf(x, y)
#define BITS(x) __float_as_int(x)
#define FLOAT(x) __int_as_float(x)
typedef unsigned short ushort;
typedef unsigned int uint;
#endif

#define SLOTS 64
#define ITEM (GROUP * LANES + LANE)
#define AT(type, offset) ((GLOBAL type*)(arena + (offset)))
#define LOWEST FLOAT(0xff800000)  // minus infinity

DEVICE float widen(ushort upper) { return FLOAT((int)((uint)upper << 16)); }

// To nearest, ties to even; NaN keeps its sign and gets the quiet bit.
DEVICE ushort narrow(float value) {
  const uint bits = (uint)BITS(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if CLEAVE_BF16
typedef ushort Element;
#define GET(p, i) widen((p)[i])
#define PUT(p, i, value) ((p)[i] = narrow(value))
#define ROUNDED(value) widen(narrow(value))
#else
typedef float Element;
#define GET(p, i) ((p)[i])
#define PUT(p, i, value) ((p)[i] = (value))
#define ROUNDED(value) (value)
#endif

// Of a tensor whose dtype is not that of the program.
DEVICE float get_as(GLOBAL const char* p, long i, int bf16) {
  return bf16 ? widen(((GLOBAL const ushort*)p)[i]) : ((GLOBAL const float*)p)[i];
}
DEVICE void put_as(GLOBAL char* p, long i, int bf16, float value) {
  if (bf16) {
    ((GLOBAL ushort*)p)[i] = narrow(value);
  } else {
    ((GLOBAL float*)p)[i] = value;
  }
}

// As exp, log, tanh and sigmoid in simd/exp-inl.h, operation by operation.
DEVICE float exp_of(float x) {
  const int below = x < -87.3f;
  const float t = below ? -87.3f : x > 88.3f ? 88.3f : x;
  const float shifted = FMA(t, 1.44269504088896341f, 12582912.0f);
  const float k = shifted - 12582912.0f;
  float r = FMA(-k, 0.693359375f, t);
  r = FMA(-k, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = FMA(p, r, 1.3981999507e-3f);
  p = FMA(p, r, 8.3334519073e-3f);
  p = FMA(p, r, 4.1665795894e-2f);
  p = FMA(p, r, 1.6666665459e-1f);
  p = FMA(p, r, 5.0000001201e-1f);
  p = FMA(r * r, p, r) + 1.0f;
  const float result = FLOAT((int)((uint)BITS(p) + ((uint)BITS(shifted) << 23)));
  return below ? 0.0f : result;
}

DEVICE float log_of(float x) {
  const int above = BITS(x) - BITS(0.70710678f);
  const int exponent = above >> 23;
  const int mantissa = BITS(x) - (int)((uint)exponent << 23);
  const float k = (float)exponent;
  const float f = FLOAT(mantissa) - 1.0f;
  const float s = f / (f + 2.0f);
  const float z = s * s;
  float rest = FMA(z, 2.0f / 9, 2.0f / 7);
  rest = FMA(z, rest, 2.0f / 5);
  rest = FMA(z, rest, 2.0f / 3);
  const float half_square = f * f * 0.5f;
  const float low = k * 1.42860682e-6f;
  const float tail = FMA(s, FMA(z, rest, half_square), low);
  const float result = FMA(k, 22713.0f / 32768, f - (half_square - tail));
  return x < FLOAT(0x7f800000) ? result : x;
}

DEVICE float tanh_of(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = FMA(p, z, 2.06390887954e-2f);
  p = FMA(p, z, -5.37397155531e-2f);
  p = FMA(p, z, 1.33314422036e-1f);
  p = FMA(p, z, -3.33332819422e-1f);
  const float magnitude = ABS(x);
  if (magnitude < 0.625f) return FMA(p * z, x, x);
  const float e = exp_of(magnitude + magnitude);
  return COPY_SIGN(1.0f - 2.0f / (e + 1.0f), x);
}

typedef struct {
  float value;
  float slope;
} Sigmoid;

DEVICE Sigmoid sigmoid(float x) {
  const float e = exp_of(-ABS(x));
  const float upper = 1.0f / (1.0f + e);
  const float lower = e * upper;
  Sigmoid s;
  s.value = x < 0.0f ? lower : upper;
  s.slope = lower * upper;
  return s;
}

// What 64 lanes each hold of a sum, added up in the order of sum_of_slots. Macros: PoCL 3.1
// miscompiles barriers in functions.
#define SUM_OF_SLOTS(slots, own, total)                                                            \
  do {                                                                                             \
    slots[LANE] = (own);                                                                           \
    BARRIER;                                                                                       \
    if (LANE < 16)                                                                                 \
      slots[LANE] = (slots[LANE] + slots[LANE + 16]) + (slots[LANE + 32] + slots[LANE + 48]);       \
    BARRIER;                                                                                       \
    if (LANE < 8) slots[LANE] = slots[LANE] + slots[LANE + 8];                                      \
    BARRIER;                                                                                       \
    if (LANE < 4) slots[LANE] = slots[LANE] + slots[LANE + 4];                                      \
    BARRIER;                                                                                       \
    if (LANE < 2) slots[LANE] = slots[LANE] + slots[LANE + 2];                                      \
    BARRIER;                                                                                       \
    total = slots[0] + slots[1];                                                                   \
    BARRIER;                                                                                       \
  } while (0)

#define LARGEST_OF_SLOTS(slots, own, largest)                                                      \
  do {                                                                                             \
    slots[LANE] = (own);                                                                           \
    BARRIER;                                                                                       \
    for (int half_ = SLOTS / 2; half_ > 0; half_ /= 2) {                                            \
      if (LANE < half_ && slots[LANE + half_] > slots[LANE]) slots[LANE] = slots[LANE + half_];     \
      BARRIER;                                                                                     \
    }                                                                                              \
    largest = slots[0];                                                                            \
    BARRIER;                                                                                       \
  } while (0)

// Element `i` of views with rows of n, `inner` rows before the outer stride applies.
#define COLUMN(i) ((i) % n)
#define INDEX(i, outer_stride, row_stride) \
  ((i) / n / inner * (outer_stride) + (i) / n % inner * (row_stride) + (i) % n)
