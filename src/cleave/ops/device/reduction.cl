// ── Norms: one group of 64 lanes for a row ───────────────────────────────────────────────────────

// What a norm multiplies by.
#define FACTOR(weights, i) (one_plus ? GET(weights, i) + 1.0f : GET(weights, i))

// Without mean and bias it is RMSNorm.
KERNEL void norm(GLOBAL char* arena, long n, long centred, long one_plus, long x, long x_stride,
                 long weight, long bias, float eps, long y, long y_stride, long means, long rstds) {
  LOCAL float slots[SLOTS];
  const long row = GROUP;
  GLOBAL const Element* xs = AT(const Element, x) + row * x_stride;
  GLOBAL Element* ys = AT(Element, y) + row * y_stride;
  float mean = 0.0f;
  float sum = 0.0f;
  for (long i = LANE; i < n; i += SLOTS) sum = sum + GET(xs, i);
  SUM_OF_SLOTS(slots, sum, sum);
  if (centred) mean = sum / (float)n;
  float squares = 0.0f;
  for (long i = LANE; i < n; i += SLOTS) {
    const float v = centred ? GET(xs, i) - mean : GET(xs, i);
    const float square = v * v;
    squares = squares + square;
  }
  SUM_OF_SLOTS(slots, squares, squares);
  const float rstd = 1.0f / SQRT(squares / (float)n + eps);
  for (long i = LANE; i < n; i += SLOTS) {
    const float v = centred ? GET(xs, i) - mean : GET(xs, i);
    const float xhat = v * rstd;
    const float w = FACTOR(AT(const Element, weight), i);
    PUT(ys, i, centred ? FMA(xhat, w, GET(AT(const Element, bias), i)) : xhat * w);
  }
  if (LANE == 0 && means >= 0) AT(float, means)[row] = mean;
  if (LANE == 0 && rstds >= 0) AT(float, rstds)[row] = rstd;
}

KERNEL void norm_input_gradient(GLOBAL char* arena, long n, long centred, long one_plus, long dy,
                                long dy_stride, long x, long x_stride, long weight, long means,
                                long rstds, long branch, long branch_stride, long dx,
                                long dx_stride) {
  LOCAL float slots[SLOTS];
  const long row = GROUP;
  GLOBAL const Element* dys = AT(const Element, dy) + row * dy_stride;
  GLOBAL const Element* xs = AT(const Element, x) + row * x_stride;
  GLOBAL const Element* ws = AT(const Element, weight);
  GLOBAL Element* dxs = AT(Element, dx) + row * dx_stride;
  const float mean = centred ? AT(const float, means)[row] : 0.0f;
  const float rstd = AT(const float, rstds)[row];
  float along = 0.0f, plain = 0.0f;
  for (long i = LANE; i < n; i += SLOTS) {
    const float xhat = (centred ? GET(xs, i) - mean : GET(xs, i)) * rstd;
    const float g = GET(dys, i) * FACTOR(ws, i);
    along = FMA(g, xhat, along);
    plain = plain + g;
  }
  SUM_OF_SLOTS(slots, along, along);
  SUM_OF_SLOTS(slots, plain, plain);
  const float mean_along = along / (float)n;
  const float mean_g = plain / (float)n;
  for (long i = LANE; i < n; i += SLOTS) {
    const float xhat = (centred ? GET(xs, i) - mean : GET(xs, i)) * rstd;
    float g = GET(dys, i) * FACTOR(ws, i);
    if (centred) g = g - mean_g;
    g = rstd * FMA(-xhat, mean_along, g);
    if (branch >= 0) g = g + GET(AT(const Element, branch) + row * branch_stride, i);
    PUT(dxs, i, g);
  }
}

// One item for a column: slices of tokens in order, each summed for itself.
KERNEL void norm_weight_gradient(GLOBAL char* arena, long n, long tokens, long slice, long centred,
                                 long dy, long dy_stride, long x, long x_stride, long means,
                                 long rstds, long dweight, long dbias) {
  const long c = ITEM;
  if (c >= n) return;
  float weight = 0.0f, bias = 0.0f;
  for (long first = 0; first < tokens; first += slice) {
    const long end = first + slice < tokens ? first + slice : tokens;
    float w = 0.0f, b = 0.0f;
    for (long t = first; t < end; ++t) {
      const float d = GET(AT(const Element, dy) + t * dy_stride, c);
      const float v = GET(AT(const Element, x) + t * x_stride, c);
      const float xhat = (centred ? v - AT(const float, means)[t] : v) * AT(const float, rstds)[t];
      w = FMA(d, xhat, w);
      b = d + b;
    }
    weight = first == 0 ? w : weight + w;
    bias = first == 0 ? b : bias + b;
  }
  AT(float, dweight)[c] = weight;
  if (dbias >= 0) AT(float, dbias)[c] = bias;
}

// ── Sums over rows ───────────────────────────────────────────────────────────────────────────────

KERNEL void column_sums(GLOBAL char* arena, long n, long rows, long a, long stride, long out) {
  const long c = ITEM;
  if (c >= n) return;
  GLOBAL const Element* p = AT(const Element, a) + c;
  float sum = 0.0f;
  long row = 0;
  for (; row + 8 <= rows; row += 8) {
    const float low = (GET(p, row * stride) + GET(p, (row + 1) * stride)) +
                      (GET(p, (row + 2) * stride) + GET(p, (row + 3) * stride));
    const float high = (GET(p, (row + 4) * stride) + GET(p, (row + 5) * stride)) +
                       (GET(p, (row + 6) * stride) + GET(p, (row + 7) * stride));
    sum = sum + (low + high);
  }
  for (; row < rows; ++row) sum = sum + GET(p, row * stride);
  AT(float, out)[c] = AT(float, out)[c] + sum;
}

// Blocks of 4096 elements in 32 slots of f64, one group of 32 lanes for each.
KERNEL void squares(GLOBAL char* arena, long count, long a, long first_block, long out) {
  LOCAL double slots[32];
  const long first = (first_block + GROUP) * 4096;
  const long end = first + 4096 < count ? first + 4096 : count;
  double sum = 0.0;
  for (long i = first + LANE; i < end; i += 32) {
    const double value = (double)AT(const float, a)[i];
    const double square = value * value;
    sum = sum + square;
  }
  slots[LANE] = sum;
  BARRIER;
  if (LANE < 8)
    slots[LANE] = (slots[LANE] + slots[LANE + 8]) + (slots[LANE + 16] + slots[LANE + 24]);
  BARRIER;
  if (LANE < 4) slots[LANE] = slots[LANE] + slots[LANE + 4];
  BARRIER;
  if (LANE < 2) slots[LANE] = slots[LANE] + slots[LANE + 2];
  BARRIER;
  if (LANE == 0) AT(double, out)[GROUP] = slots[0] + slots[1];
}

// ── Embedding ────────────────────────────────────────────────────────────────────────────────────

// An id that the table has no row for yields zeros.
KERNEL void embedding(GLOBAL char* arena, long count, long n, long ids, long first, float scale_of,
                      long table, long rows, long table_stride, long positions, long position_stride,
                      long sequence, long first_position, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long token = i / n, c = i % n;
  const long row = (long)AT(const int, ids)[token] - first;
  GLOBAL Element* out = AT(Element, y) + token * y_stride;
  if (row < 0 || row >= rows) {
    PUT(out, c, 0.0f);
    return;
  }
  GLOBAL const Element* entry = AT(const Element, table) + row * table_stride;
  if (positions < 0) {
    if (scale_of == 1.0f) {
      out[c] = entry[c];
    } else {
      PUT(out, c, GET(entry, c) * scale_of);
    }
    return;
  }
  const long position = first_position + token % sequence;
  PUT(out, c, GET(entry, c) + GET(AT(const Element, positions) + position * position_stride, c));
}

// One item adds a column of all tokens, in their order.
KERNEL void embedding_gradient(GLOBAL char* arena, long n, long tokens, long ids, long first, long still,
                               float scale_of, long rows, long dy, long dy_stride, long dtable, long table_stride) {
  const long c = ITEM;
  if (c >= n) return;
  for (long token = 0; token < tokens; ++token) {
    const long id = AT(const int, ids)[token], row = id - first;
    if (row < 0 || row >= rows || id == still) continue;
    GLOBAL float* entry = AT(float, dtable) + row * table_stride;
    const float scaled = GET(AT(const Element, dy) + token * dy_stride, c) * scale_of;
    entry[c] = entry[c] + scaled;
  }
}

KERNEL void position_gradient(GLOBAL char* arena, long count, long n, long tokens, long sequence,
                              long dy, long dy_stride, long dpositions, long stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long position = i / n, c = i % n;
  float sum = AT(float, dpositions)[position * stride + c];
  for (long token = position; token < tokens; token += sequence)
    sum = sum + GET(AT(const Element, dy) + token * dy_stride, c);
  AT(float, dpositions)[position * stride + c] = sum;
}

// ── Cross entropy: one group of 64 lanes for a token ─────────────────────────────────────────────

#define EXTEND_SOFTMAX(logits, before_max, before_sum, max_, sum_)                               \
  do {                                                                                           \
    float own_ = LOWEST;                                                                         \
    for (long i = LANE; i < n; i += SLOTS) own_ = GET(logits, i) > own_ ? GET(logits, i) : own_; \
    LARGEST_OF_SLOTS(slots, own_, own_);                                                         \
    max_ = own_ > before_max ? own_ : before_max;                                                \
    float exps_ = 0.0f;                                                                          \
    for (long i = LANE; i < n; i += SLOTS) exps_ = exps_ + exp_of(GET(logits, i) - max_);        \
    SUM_OF_SLOTS(slots, exps_, sum_);                                                            \
    if (before_sum != 0.0f) {                                                                    \
      const float kept_ = before_sum * exp_of(before_max - max_);                                \
      sum_ = kept_ + sum_;                                                                       \
    }                                                                                            \
  } while (0)

KERNEL void cross_entropy(GLOBAL char* arena, long n, long logits, long stride, long targets,
                          long losses, long lse) {
  LOCAL float slots[SLOTS];
  GLOBAL const Element* row = AT(const Element, logits) + GROUP * stride;
  float max = 0.0f, sum = 0.0f;
  EXTEND_SOFTMAX(row, LOWEST, 0.0f, max, sum);
  if (LANE != 0) return;
  const long target = AT(const int, targets)[GROUP];
  const float log_sum = max + log_of(sum);
  AT(float, lse)[GROUP] = log_sum;
  AT(float, losses)[GROUP] = target < 0 || target >= n ? 0.0f : log_sum - GET(row, target);
}

KERNEL void cross_entropy_gradient(GLOBAL char* arena, long count, long n, long logits, long stride,
                                   long first, long targets, long lse, float factor) {
  const long i = ITEM;
  if (i >= count) return;
  const long token = i / n, c = i % n;
  GLOBAL Element* at = AT(Element, logits) + token * stride;
  const long target = AT(const int, targets)[token];
  if (target < 0) {
    PUT(at, c, 0.0f);
    return;
  }
  const float p = exp_of(GET(at, c) - AT(const float, lse)[token]);
  PUT(at, c, (target - first == c ? p - 1.0f : p) * factor);
}

KERNEL void cross_entropy_partial(GLOBAL char* arena, long n, long logits, long stride, long first,
                                  long targets, long maxima, long sums, long target_logits,
                                  long begins) {
  LOCAL float slots[SLOTS];
  GLOBAL const Element* row = AT(const Element, logits) + GROUP * stride;
  const float before_max = begins ? LOWEST : AT(float, maxima)[GROUP];
  const float before_sum = begins ? 0.0f : AT(float, sums)[GROUP];
  float max = 0.0f, sum = 0.0f;
  EXTEND_SOFTMAX(row, before_max, before_sum, max, sum);
  if (LANE != 0) return;
  AT(float, maxima)[GROUP] = max;
  AT(float, sums)[GROUP] = sum;
  if (begins) AT(float, target_logits)[GROUP] = 0.0f;
  const long target = AT(const int, targets)[GROUP];
  const long c = target - first;
  if (target >= 0 && c >= 0 && c < n) AT(float, target_logits)[GROUP] = GET(row, c);
}

KERNEL void cross_entropy_merge(GLOBAL char* arena, long count, long other_max, long other_sum,
                                long other_target, long maxima, long sums, long target_logits) {
  const long t = ITEM;
  if (t >= count) return;
  const float max = AT(float, maxima)[t], other = AT(const float, other_max)[t];
  const float largest = other > max ? other : max;
  const float mine = AT(float, sums)[t] * exp_of(max - largest);
  const float theirs = AT(const float, other_sum)[t] * exp_of(other - largest);
  AT(float, sums)[t] = mine + theirs;
  AT(float, maxima)[t] = largest;
  AT(float, target_logits)[t] = AT(float, target_logits)[t] + AT(const float, other_target)[t];
}

KERNEL void cross_entropy_finish(GLOBAL char* arena, long count, long maxima, long sums,
                                 long target_logits, long targets, long losses, long lse) {
  const long t = ITEM;
  if (t >= count) return;
  const float log_sum = AT(const float, maxima)[t] + log_of(AT(const float, sums)[t]);
  const float loss = log_sum - AT(const float, target_logits)[t];
  AT(float, lse)[t] = log_sum;
  AT(float, losses)[t] = AT(const int, targets)[t] < 0 ? 0.0f : loss;
}

// One item for a row: 1 if its first highest logit is the target's.
KERNEL void hits(GLOBAL char* arena, long rows, long n, long logits, long stride, long targets,
                 long hits_of) {
  const long row = ITEM;
  if (row >= rows) return;
  GLOBAL const Element* line = AT(const Element, logits) + row * stride;
  long highest = 0;
  for (long c = 1; c < n; ++c)
    if (GET(line, c) > GET(line, highest)) highest = c;
  AT(float, hits_of)[row] = highest == (long)AT(const int, targets)[row] ? 1.0f : 0.0f;
}
