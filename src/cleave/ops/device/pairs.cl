// ── Images and texts side by side, and against each other ───────────────────────────────────────
//
// Sums are in f64, one after another, and rounded once, as the ops for processors have them; few rows
// pass through here.

#if defined(__OPENCL_C_VERSION__)
#define LONG_BITS(x) as_long(x)
#define DOUBLE(x) as_double(x)
#define ABS64(x) fabs(x)
#define SQRT64(x) sqrt(x)
#else
#define LONG_BITS(x) __double_as_longlong(x)
#define DOUBLE(x) __longlong_as_double(x)
#define ABS64(x) fabs(x)
#define SQRT64(x) sqrt(x)
#endif

// As exponential() of base/elementary.cpp, operation by operation; x <= 709.
DEVICE double exponential(double x) {
  if (x != x) return x;
  if (x < -708.0) return 0.0;
  const double k = (x * (1.0 / 0x1.62e42fefa39efp-1) + 0x1.8p52) - 0x1.8p52;
  const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 1.0 / 2.0;
  p = p * r + 1.0;
  return DOUBLE(LONG_BITS(1.0 + r * p) + ((long)k << 52));
}

// As natural_log() there; x is normal and positive.
DEVICE double natural_log(double x) {
  const long bits = LONG_BITS(x);
  int exponent = (int)(bits >> 52) - 1022;
  double mantissa = DOUBLE((bits & 0xfffffffffffffL) | (1022L << 52));
  if (mantissa < 0x1.6a09e667f3bcdp+0 / 2) {
    mantissa = mantissa * 2.0;
    exponent = exponent - 1;
  }
  const double f = mantissa - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  double p = 2.0 / 21;
  p = p * square + 2.0 / 19;
  p = p * square + 2.0 / 17;
  p = p * square + 2.0 / 15;
  p = p * square + 2.0 / 13;
  p = p * square + 2.0 / 11;
  p = p * square + 2.0 / 9;
  p = p * square + 2.0 / 7;
  p = p * square + 2.0 / 5;
  p = p * square + 2.0 / 3;
  const double rest = s * (f - square * p);
  const double k = (double)exponent;
  return k * 0x1.62e42feep-1 + (f - (rest - k * 0x1.a39ef35793c76p-33));
}

// As log_one_plus() and what stands upon it in ops/pair_loss.cpp.
DEVICE double log_one_plus(double small) {
  if (!(small > 0.0)) return small;
  const double one_plus = 1.0 + small;
  return one_plus == 1.0 ? small : natural_log(one_plus) * small / (one_plus - 1.0);
}
DEVICE double softplus(double v) {
  return (v < 0.0 ? 0.0 : v) + log_one_plus(exponential(-ABS64(v)));
}
DEVICE double sigmoid64(double v) {
  const double small = exponential(-ABS64(v));
  return v >= 0.0 ? 1.0 / (1.0 + small) : small / (1.0 + small);
}

// One item for a row.
KERNEL void pair_losses(GLOBAL char* arena, long rows, long n, long logits, long logits_stride,
                        long first, float bias, long losses) {
  const long row = ITEM;
  if (row >= rows) return;
  GLOBAL const float* logit = AT(const float, logits) + row * logits_stride;
  double sum = 0.0;
  for (long j = 0; j < n; ++j) {
    const double v = (double)logit[j] + (double)bias;
    sum = sum + softplus(j == first + row ? -v : v);
  }
  AT(float, losses)[row] = (float)sum;
}

KERNEL void pair_gradient(GLOBAL char* arena, long rows, long n, long logits, long logits_stride,
                          long first, float bias, float scale, long sums) {
  const long row = ITEM;
  if (row >= rows) return;
  GLOBAL float* logit = AT(float, logits) + row * logits_stride;
  double sum = 0.0;
  for (long j = 0; j < n; ++j) {
    const double v = (double)logit[j] + (double)bias;
    const double slope = j == first + row ? -sigmoid64(-v) : sigmoid64(v);
    logit[j] = (float)(slope * (double)scale);
    sum = sum + slope * (double)scale;
  }
  AT(float, sums)[row] = (float)sum;
}

// One group for a row; its first lane adds.
KERNEL void unit_rows(GLOBAL char* arena, long n, long x, long x_stride, long y, long y_stride,
                      long inverse) {
  LOCAL float factor[1];
  GLOBAL const Element* from = AT(const Element, x) + GROUP * x_stride;
  if (LANE == 0) {
    double squares = 0.0;
    for (long i = 0; i < n; ++i) squares = squares + (double)GET(from, i) * (double)GET(from, i);
    factor[0] = (float)(squares == 0.0 ? 0.0 : 1.0 / SQRT64(squares));
    AT(float, inverse)[GROUP] = factor[0];
  }
  BARRIER;
  for (long i = LANE; i < n; i += LANES) AT(float, y)[GROUP * y_stride + i] = GET(from, i) * factor[0];
}

KERNEL void unit_rows_gradient(GLOBAL char* arena, long n, long dy, long dy_stride, long x,
                               long x_stride, long inverse, long dx, long dx_stride) {
  LOCAL double shared_along[1];
  GLOBAL const Element* from = AT(const Element, x) + GROUP * x_stride;
  GLOBAL const float* slope = AT(const float, dy) + GROUP * dy_stride;
  const double factor = (double)AT(const float, inverse)[GROUP];
  if (LANE == 0) {
    double along = 0.0;
    for (long i = 0; i < n; ++i) along = along + (double)GET(from, i) * factor * (double)slope[i];
    shared_along[0] = along;
  }
  BARRIER;
  const double along = shared_along[0];
  for (long i = LANE; i < n; i += LANES)
    PUT(AT(Element, dx), GROUP * dx_stride + i,
        (float)(((double)slope[i] - (double)GET(from, i) * factor * along) * factor));
}

// One item for an element; an id that has no row yields zeros.
KERNEL void place_rows(GLOBAL char* arena, long count, long n, long ids, long places, long rows,
                       long x, long x_stride, long entries, long table, long table_stride, long y,
                       long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long token = i / n, column = i % n;
  const long place = AT(const int, places)[token], id = AT(const int, ids)[token];
  Element value = 0;
  if (place >= 0 && place < rows) {
    value = AT(const Element, x)[place * x_stride + column];
  } else if (id >= 0 && id < entries) {
    value = AT(const Element, table)[id * table_stride + column];
  }
  AT(Element, y)[token * y_stride + column] = value;
}

// y may be x: an item reads the one element that it writes. What has no place keeps its bits.
KERNEL void add_rows(GLOBAL char* arena, long count, long n, long places, long rows, long from,
                     long from_stride, long x, long x_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long token = i / n, column = i % n;
  const long place = rows > 0 ? AT(const int, places)[token] : -1;
  GLOBAL const Element* own = AT(const Element, x) + token * x_stride + column;
  GLOBAL Element* out = AT(Element, y) + token * y_stride + column;
  if (place >= 0 && place < rows) {
    PUT(out, 0, GET(own, 0) + GET(AT(const Element, from), place * from_stride + column));
  } else {
    *out = *own;
  }
}

// One item for a column.
KERNEL void place_rows_gradient(GLOBAL char* arena, long n, long tokens, long places, long rows,
                                long dy, long dy_stride, long dx, long dx_stride) {
  const long column = ITEM;
  if (column >= n) return;
  GLOBAL Element* sums = AT(Element, dx) + column;
  for (long row = 0; row < rows; ++row) sums[row * dx_stride] = 0;
  for (long t = 0; t < tokens; ++t) {
    const long place = AT(const int, places)[t];
    if (place < 0 || place >= rows) continue;
    PUT(sums, place * dx_stride,
        GET(sums, place * dx_stride) + GET(AT(const Element, dy), t * dy_stride + column));
  }
}

KERNEL void place_table_gradient(GLOBAL char* arena, long n, long tokens, long ids, long places,
                                 long still, long rows, long entries, long dy, long dy_stride, long dtable,
                                 long dtable_stride) {
  const long column = ITEM;
  if (column >= n) return;
  GLOBAL float* sums = AT(float, dtable) + column;
  for (long t = 0; t < tokens; ++t) {
    const long place = AT(const int, places)[t], id = AT(const int, ids)[t];
    if ((place >= 0 && place < rows) || id < 0 || id >= entries || id == still) continue;
    sums[id * dtable_stride] =
        sums[id * dtable_stride] + GET(AT(const Element, dy), t * dy_stride + column);
  }
}

// <a row of keys or values, at>, `at` a row of f32 (is_f32) or of elements.
DEVICE double row_product(GLOBAL const Element* row, GLOBAL const char* at, long dim, int is_f32) {
  double sum = 0.0;
  for (long i = 0; i < dim; ++i) {
    const float other =
        is_f32 ? ((GLOBAL const float*)at)[i] : GET((GLOBAL const Element*)at, i);
    sum = sum + (double)GET(row, i) * (double)other;
  }
  return sum;
}

// One item for a head of a sequence.
KERNEL void attention_pool(GLOBAL char* arena, long count, long sequence, long heads, long dim,
                           long q, long kv, long kv_stride, long y, long y_stride, long p) {
  const long i = ITEM;
  if (i >= count) return;
  const long s = i / heads, column = i % heads * dim;
  GLOBAL const Element* keys = AT(const Element, kv) + s * sequence * kv_stride + column;
  GLOBAL float* weights = AT(float, p) + i * sequence;
  const double factor = 1.0 / SQRT64((double)dim);
  float largest = LOWEST;
  for (long row = 0; row < sequence; ++row) {
    const double score = row_product(keys + row * kv_stride,
                                     (GLOBAL const char*)(AT(const float, q) + column), dim, 1);
    weights[row] = (float)(score * factor);
    if (largest < weights[row]) largest = weights[row];
  }
  double sum = 0.0;
  for (long row = 0; row < sequence; ++row) {
    weights[row] = (float)exponential((double)weights[row] - (double)largest);
    sum = sum + (double)weights[row];
  }
  for (long row = 0; row < sequence; ++row) weights[row] = (float)((double)weights[row] / sum);
  GLOBAL const Element* values = keys + heads * dim;
  for (long c = 0; c < dim; ++c) {
    double pooled = 0.0;
    for (long row = 0; row < sequence; ++row)
      pooled = pooled + (double)weights[row] * (double)GET(values, row * kv_stride + c);
    PUT(AT(Element, y), s * y_stride + column + c, (float)pooled);
  }
}

// One item for a head, of all sequences: dq has one order.
KERNEL void attention_pool_gradient(GLOBAL char* arena, long heads, long sequences, long sequence,
                                    long dim, long q, long kv, long kv_stride, long p, long dy,
                                    long dy_stride, long dkv, long dkv_stride, long dq) {
  const long head = ITEM;
  if (head >= heads) return;
  const long column = head * dim, values = heads * dim;
  const double factor = 1.0 / SQRT64((double)dim);
  GLOBAL const float* query = AT(const float, q) + column;
  GLOBAL float* dquery = AT(float, dq) + column;
  for (long c = 0; c < dim; ++c) dquery[c] = 0.0f;
  for (long s = 0; s < sequences; ++s) {
    GLOBAL const Element* keys = AT(const Element, kv) + s * sequence * kv_stride + column;
    GLOBAL Element* dkeys = AT(Element, dkv) + s * sequence * dkv_stride + column;
    GLOBAL const float* weights = AT(const float, p) + (s * heads + head) * sequence;
    GLOBAL const Element* slope = AT(const Element, dy) + s * dy_stride + column;
    double mean = 0.0;
    for (long row = 0; row < sequence; ++row)
      mean = mean + (double)weights[row] * row_product(keys + row * kv_stride + values,
                                                       (GLOBAL const char*)slope, dim, 0);
    for (long row = 0; row < sequence; ++row) {
      const double weight = (double)weights[row];
      const double along =
          row_product(keys + row * kv_stride + values, (GLOBAL const char*)slope, dim, 0);
      const double dscore = weight * (along - mean) * factor;
      for (long c = 0; c < dim; ++c) {
        dquery[c] = dquery[c] + (float)(dscore * (double)GET(keys, row * kv_stride + c));
        PUT(dkeys, row * dkv_stride + c, (float)(dscore * (double)query[c]));
        PUT(dkeys, row * dkv_stride + values + c, (float)(weight * (double)GET(slope, c)));
      }
    }
  }
}
