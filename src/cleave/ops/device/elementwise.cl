KERNEL void add(GLOBAL char* arena, long count, long n, long inner, long a, long a0, long a1,
                long b, long b0, long b1, long out, long o0, long o1) {
  const long i = ITEM;
  if (i >= count) return;
  const float sum =
      GET(AT(const Element, a), INDEX(i, a0, a1)) + GET(AT(const Element, b), INDEX(i, b0, b1));
  PUT(AT(Element, out), INDEX(i, o0, o1), sum);
}

KERNEL void scale(GLOBAL char* arena, long count, long n, long inner, long a, long a0, long a1,
                  float factor, long out, long o0, long o1) {
  const long i = ITEM;
  if (i >= count) return;
  PUT(AT(Element, out), INDEX(i, o0, o1), GET(AT(const Element, a), INDEX(i, a0, a1)) * factor);
}

KERNEL void weighted_sum(GLOBAL char* arena, long count, long n, long inner, long a, long a0,
                         long a1, float weight_a, long b, long b0, long b1, float weight_b,
                         long out, long o0, long o1) {
  const long i = ITEM;
  if (i >= count) return;
  const float second = AT(const float, b)[INDEX(i, b0, b1)] * weight_b;
  AT(float, out)[INDEX(i, o0, o1)] = FMA(AT(const float, a)[INDEX(i, a0, a1)], weight_a, second);
}

KERNEL void fill(GLOBAL char* arena, long count, long n, long inner, float value, long out, long o0,
                 long o1) {
  const long i = ITEM;
  if (i < count) PUT(AT(Element, out), INDEX(i, o0, o1), value);
}

KERNEL void copy(GLOBAL char* arena, long count, long n, long inner, long a, long a0, long a1,
                 long out, long o0, long o1, long out_bf16) {
  const long i = ITEM;
  if (i >= count) return;
#if CLEAVE_BF16
  // Bits as they are, NaN too.
  if (out_bf16) {
    AT(ushort, out)[INDEX(i, o0, o1)] = AT(const ushort, a)[INDEX(i, a0, a1)];
    return;
  }
#endif
  put_as(arena + out, INDEX(i, o0, o1), (int)out_bf16, GET(AT(const Element, a), INDEX(i, a0, a1)));
}

#define GELU_LINEAR 1.5957691216057308f
#define GELU_CUBIC 0.0713548162726009f

// Φ(x), as normal_below in simd/gate_functions-inl.h.
DEVICE float normal_below(float x) {
  const float z = ABS(x) * 0.70710678118654752f;
  const float t = 1.0f / FMA(z, 0.5f, 1.0f);
  float p = 0.17087277f;
  p = FMA(p, t, -0.82215223f);
  p = FMA(p, t, 1.48851587f);
  p = FMA(p, t, -1.13520398f);
  p = FMA(p, t, 0.27886807f);
  p = FMA(p, t, -0.18628806f);
  p = FMA(p, t, 0.09678418f);
  p = FMA(p, t, 0.37409196f);
  p = FMA(p, t, 1.00002368f);
  p = FMA(p, t, -1.26551223f);
  const float tail = (t * 0.5f) * exp_of(FMA(-z, z, p));
  return x < 0.0f ? tail : 1.0f - tail;
}

// Forms of GELU: 0 by tanh, 1 exactly, 2 quickly.
DEVICE float gelu_of(long form, float v) {
  if (form == 1) return v * normal_below(v);
  if (form == 2) return v * sigmoid(v * 1.702f).value;
  return v * sigmoid(v * FMA(v * v, GELU_CUBIC, GELU_LINEAR)).value;
}

DEVICE float slope_of_gelu(long form, float v) {
  if (form == 1) {
    const float density = 0.39894228040143268f * exp_of((v * v) * -0.5f);
    return FMA(v, density, normal_below(v));
  }
  const float square = v * v;
  const float u = form == 2 ? v * 1.702f : v * FMA(square, GELU_CUBIC, GELU_LINEAR);
  const Sigmoid s = sigmoid(u);
  if (form == 2) return FMA(u, s.slope, s.value);
  return FMA(v * FMA(square, 3 * GELU_CUBIC, GELU_LINEAR), s.slope, s.value);
}

KERNEL void gelu(GLOBAL char* arena, long count, long n, long inner, long form, long x, long x0,
                 long x1, long y, long y0, long y1) {
  const long i = ITEM;
  if (i >= count) return;
  PUT(AT(Element, y), INDEX(i, y0, y1), gelu_of(form, GET(AT(const Element, x), INDEX(i, x0, x1))));
}

KERNEL void gelu_backward(GLOBAL char* arena, long count, long n, long inner, long form, long x,
                          long x0, long x1, long dy, long dy0, long dy1, long dx, long dx0,
                          long dx1) {
  const long i = ITEM;
  if (i >= count) return;
  const float slope = slope_of_gelu(form, GET(AT(const Element, x), INDEX(i, x0, x1)));
  PUT(AT(Element, dx), INDEX(i, dx0, dx1), GET(AT(const Element, dy), INDEX(i, dy0, dy1)) * slope);
}

// gate in the first n columns of a row of gate_up, up in the others; `by_gelu`: else by silu.
KERNEL void gated(GLOBAL char* arena, long count, long n, long by_gelu, long gate_up,
                  long gate_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  GLOBAL const Element* row = AT(const Element, gate_up) + i / n * gate_stride;
  const float g = GET(row, COLUMN(i));
  const float value = by_gelu ? gelu_of(0, g) : g * sigmoid(g).value;
  PUT(AT(Element, y), i / n * y_stride + COLUMN(i), value * GET(row, n + COLUMN(i)));
}

KERNEL void gated_backward(GLOBAL char* arena, long count, long n, long by_gelu, long gate_up,
                           long gate_stride, long dy, long dy_stride, long dgate_up,
                           long dgate_stride) {
  const long i = ITEM;
  if (i >= count) return;
  GLOBAL const Element* row = AT(const Element, gate_up) + i / n * gate_stride;
  GLOBAL Element* out = AT(Element, dgate_up) + i / n * dgate_stride;
  const float g = GET(row, COLUMN(i));
  const float u = GET(row, n + COLUMN(i));
  const float d = GET(AT(const Element, dy), i / n * dy_stride + COLUMN(i));
  const Sigmoid s = sigmoid(g);
  const float slope = by_gelu ? slope_of_gelu(0, g) : FMA(g, s.slope, s.value);
  const float value = by_gelu ? gelu_of(0, g) : g * s.value;
  PUT(out, COLUMN(i), (d * u) * slope);
  PUT(out, n + COLUMN(i), d * value);
}

// One pair of one head; t, h and i from the item's number.
KERNEL void rope(GLOBAL char* arena, long count, long heads, long pairs, long x, long token_stride,
                 long head_stride, long cos, long sin, long sequence, long first, float direction) {
  const long item = ITEM;
  if (item >= count) return;
  const long i = item % pairs, head = item / pairs % heads, token = item / pairs / heads;
  const long at = (first + token % sequence) * pairs + i;
  GLOBAL Element* p = AT(Element, x) + token * token_stride + head * head_stride;
  const float a = GET(p, i), b = GET(p, pairs + i);
  const float c = AT(const float, cos)[at];
  const float s = AT(const float, sin)[at] * direction;
  PUT(p, i, FMA(-b, s, a * c));
  PUT(p, pairs + i, FMA(a, s, b * c));
}

// ── Updates ──────────────────────────────────────────────────────────────────────────────────────

#define PUT_MASTER(i, value)                                    \
  do {                                                          \
    const float master_ = (value);                              \
    AT(float, master)[i] = master_;                             \
    if (copy_of >= 0) AT(ushort, copy_of)[i] = narrow(master_); \
  } while (0)

KERNEL void adamw(GLOBAL char* arena, long count, long master, long m, long v, long gradient,
                  long copy_of, float gradient_scale, float keep1, float take1, float keep2,
                  float take2, float unbias, float eps, float decay, float step) {
  const long i = ITEM;
  if (i >= count) return;
  const float g = AT(const float, gradient)[i] * gradient_scale;
  const float first = FMA(AT(float, m)[i], keep1, g * take1);
  const float second = FMA(AT(float, v)[i], keep2, g * g * take2);
  const float root = FMA(SQRT(second), unbias, eps);
  const float decayed = AT(float, master)[i] * decay;
  AT(float, m)[i] = first;
  AT(float, v)[i] = second;
  PUT_MASTER(i, FMA(-step, first / root, decayed));
}

KERNEL void sgd(GLOBAL char* arena, long count, long master, long momentum, long gradient,
                long copy_of, float gradient_scale, float decay, float keep, float lr) {
  const long i = ITEM;
  if (i >= count) return;
  const float value = AT(float, master)[i];
  float g = FMA(value, decay, AT(const float, gradient)[i] * gradient_scale);
  if (momentum >= 0) {
    g = FMA(AT(float, momentum)[i], keep, g);
    AT(float, momentum)[i] = g;
  }
  PUT_MASTER(i, FMA(-lr, g, value));
}

KERNEL void lion(GLOBAL char* arena, long count, long master, long momentum, long gradient,
                 long copy_of, float gradient_scale, float keep1, float take1, float keep2,
                 float take2, float decay, float lr) {
  const long i = ITEM;
  if (i >= count) return;
  const float g = AT(const float, gradient)[i] * gradient_scale;
  const float before = AT(float, momentum)[i];
  const float mixed = FMA(before, keep1, g * take1);
  const float sign = mixed == 0.0f ? 0.0f : COPY_SIGN(1.0f, mixed);
  const float decayed = AT(float, master)[i] * decay;
  AT(float, momentum)[i] = FMA(before, keep2, g * take2);
  PUT_MASTER(i, FMA(-lr, sign, decayed));
}
