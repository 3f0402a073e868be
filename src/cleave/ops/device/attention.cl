// Attention as ops/attention.cpp computes it: queries in blocks of 64, and chains over keys run through all
// that any query of the block sees, those with weight 0 too.

// The keys that the query at `position` sees are [seen, end): all (`full`), or those up to its own
// position, with a `window` the last of these, and with documents, of which `begins` has where that of
// each token begins, none before its own. Its block multiplies [first, last).
#define SEEN_FROM(position) \
  (!full && window > 0 && (position) + 1 > window ? (position) + 1 - window : 0)
#define DOCUMENT_OF(position) \
  (begins >= 0 ? (long)AT(const int, begins)[token + (position)] : 0)
#define KEYS_OF_QUERY(position)                                                          \
  const long window_ = SEEN_FROM(position), document_ = DOCUMENT_OF(position);           \
  const long seen = window_ > document_ ? window_ : document_;                           \
  const long end = full ? sequence : (position) + 1;                                     \
  const long block_ = (position) / 64 * 64;                                              \
  const long first = SEEN_FROM(block_) / 64 * 64;                                        \
  const long last = full || block_ + 64 > sequence ? sequence : block_ + 64

// With a cap a score s becomes cap · tanh(s · scale / cap), and `rest` is what it is multiplied by later.
#define CAPPED(score) (cap > 0.0f ? tanh_of((score) * into_cap) * cap : (score))
#define REST_OF_SCALE const float rest = cap > 0.0f ? 1.0f : scale

#define CHAIN_OF_HEAD(sum, left, right)                                            \
  do {                                                                             \
    sum = 0.0f;                                                                    \
    for (long d_ = 0; d_ < head_dim; ++d_) sum = FMA(GET(left, d_), GET(right, d_), sum); \
  } while (0)

// One group of 64 lanes for a query of a head; `room` has `sequence` floats for each group.
KERNEL void attention(GLOBAL char* arena, long first_row, long sequence, long heads, long group,
                      long head_dim, float scale, float cap, float into_cap, long full,
                      long window, long q, long q_token, long q_head, long k,
                      long k_token, long k_head, long v, long v_token, long v_head, long out,
                      long out_token, long out_head, long lse, long begins, long room) {
  LOCAL float slots[SLOTS];
  const long row = first_row + GROUP;
  const long position = row % sequence, head = row / sequence % heads;
  const long token = row / sequence / heads * sequence;
  KEYS_OF_QUERY(position);
  GLOBAL const Element* query = AT(const Element, q) + (token + position) * q_token + head * q_head;
  GLOBAL const Element* keys = AT(const Element, k) + token * k_token + head / group * k_head;
  GLOBAL const Element* values = AT(const Element, v) + token * v_token + head / group * v_head;
  GLOBAL float* weights = AT(float, room) + GROUP * sequence;
  float own = LOWEST;
  for (long j = first + LANE; j < end; j += SLOTS) {
    if (j < seen) continue;
    float score;
    CHAIN_OF_HEAD(score, query, keys + j * k_token);
    score = CAPPED(score);
    weights[j] = score;
    own = score > own ? score : own;
  }
  LARGEST_OF_SLOTS(slots, own, own);
  REST_OF_SCALE;
  const float largest = rest * own;
  float sum = 0.0f;
  for (long j = first + LANE; j < last; j += SLOTS) {
    float weight = 0.0f;
    if (j >= seen && j < end) {
      weight = exp_of(FMA(weights[j], rest, -largest));
      sum = sum + weight;
    }
    weights[j] = ROUNDED(weight);
  }
  SUM_OF_SLOTS(slots, sum, sum);
  const float norm = 1.0f / sum;
  GLOBAL Element* to = AT(Element, out) + (token + position) * out_token + head * out_head;
  for (long d = LANE; d < head_dim; d += SLOTS) {
    float mixture = 0.0f;
    for (long j = first; j < last; ++j)
      mixture = FMA(weights[j], GET(values + j * v_token, d), mixture);
    PUT(to, d, mixture * norm);
  }
  if (LANE == 0) AT(float, lse)[row] = largest + log_of(sum);
}

// What backward holds for a key-value head: p and ds of a block [64, sequence], then the sums dk
// and dv [sequence, head_dim], f32.
#define ROOM_OF(index) (AT(float, room) + (index) * (128 * sequence + 2 * sequence * head_dim))

// One group of 64 lanes for a query of the block: its weights, the gradients of its scores, and dq.
KERNEL void attention_query_gradient(GLOBAL char* arena, long first_task, long block, long rows,
                                     long member, long sequence, long kv_heads, long group,
                                     long head_dim, float scale, float cap, float into_cap,
                                     float inverse_cap, long full, long window, long q,
                                     long q_token, long q_head,
                                     long k, long k_token, long k_head, long v, long v_token,
                                     long v_head, long out, long out_token, long out_head, long dout,
                                     long dout_token, long dout_head, long lse, long dq,
                                     long dq_token, long dq_head, long begins, long room) {
  LOCAL float slots[SLOTS];
  const long task = first_task + GROUP / rows, r = GROUP % rows;
  const long position = block + r;
  const long kv_head = task % kv_heads, head = kv_head * group + member;
  const long token = task / kv_heads * sequence;
  KEYS_OF_QUERY(position);
  GLOBAL const Element* query = AT(const Element, q) + (token + position) * q_token + head * q_head;
  GLOBAL const Element* keys = AT(const Element, k) + token * k_token + kv_head * k_head;
  GLOBAL const Element* values = AT(const Element, v) + token * v_token + kv_head * v_head;
  GLOBAL const Element* made =
      AT(const Element, out) + (token + position) * out_token + head * out_head;
  GLOBAL const Element* given =
      AT(const Element, dout) + (token + position) * dout_token + head * dout_head;
  GLOBAL float* p = ROOM_OF(GROUP / rows) + r * sequence;
  GLOBAL float* ds = p + 64 * sequence;
  float delta = 0.0f;
  for (long d = LANE; d < head_dim; d += SLOTS) {
    const float product = GET(given, d) * GET(made, d);
    delta = delta + product;
  }
  SUM_OF_SLOTS(slots, delta, delta);
  REST_OF_SCALE;
  const float log_sum =
      AT(const float, lse)[(task / kv_heads * kv_heads * group + head) * sequence + position];
  for (long j = first + LANE; j < last; j += SLOTS) {
    float weight = 0.0f, gradient = 0.0f;
    if (j >= seen && j < end) {
      float score, dp;
      CHAIN_OF_HEAD(score, query, keys + j * k_token);
      CHAIN_OF_HEAD(dp, given, values + j * v_token);
      score = CAPPED(score);
      weight = exp_of(FMA(score, rest, -log_sum));
      const float t = score * inverse_cap;
      const float slope = cap > 0.0f ? scale * FMA(-t, t, 1.0f) : scale;
      gradient = (weight * slope) * (dp - delta);
    }
    p[j] = ROUNDED(weight);
    ds[j] = ROUNDED(gradient);
  }
  BARRIER;
  GLOBAL Element* to = AT(Element, dq) + (token + position) * dq_token + head * dq_head;
  for (long d = LANE; d < head_dim; d += SLOTS) {
    float mixture = 0.0f;
    for (long j = first; j < last; ++j)
      mixture = FMA(ds[j], GET(keys + j * k_token, d), mixture);
    PUT(to, d, mixture);
  }
}

// One item for an element of the keys that the block sees: adds the block's chains to dk and dv.
KERNEL void attention_key_gradient(GLOBAL char* arena, long count, long first_task, long block,
                                   long rows, long first_key, long keys, long member, long sequence,
                                   long kv_heads, long group, long head_dim, long q, long q_token,
                                   long q_head, long dout, long dout_token, long dout_head,
                                   long room) {
  const long i = ITEM;
  if (i >= count) return;
  const long d = i % head_dim, key = first_key + i / head_dim % keys, index = i / head_dim / keys;
  const long task = first_task + index;
  const long head = task % kv_heads * group + member;
  const long token = task / kv_heads * sequence + block;
  GLOBAL const Element* queries = AT(const Element, q) + token * q_token + head * q_head;
  GLOBAL const Element* given = AT(const Element, dout) + token * dout_token + head * dout_head;
  GLOBAL const float* p = ROOM_OF(index) + key;
  GLOBAL const float* ds = p + 64 * sequence;
  GLOBAL float* dk = ROOM_OF(index) + 128 * sequence + key * head_dim + d;
  GLOBAL float* dv = dk + sequence * head_dim;
  float sum_k = 0.0f, sum_v = 0.0f;
  for (long r = 0; r < rows; ++r) {
    sum_v = FMA(p[r * sequence], GET(given + r * dout_token, d), sum_v);
    sum_k = FMA(ds[r * sequence], GET(queries + r * q_token, d), sum_k);
  }
  *dk = *dk + sum_k;
  *dv = *dv + sum_v;
}

// One item for an element of the sums dk and dv: zero before the first block, or written out.
KERNEL void attention_key_sums(GLOBAL char* arena, long count, long first_task, long begins,
                               long sequence, long kv_heads, long head_dim, long dk, long dk_token,
                               long dk_head, long dv, long dv_token, long dv_head, long room) {
  const long i = ITEM;
  if (i >= count) return;
  const long d = i % head_dim, key = i / head_dim % sequence, index = i / head_dim / sequence;
  GLOBAL float* sum_k = ROOM_OF(index) + 128 * sequence + key * head_dim + d;
  GLOBAL float* sum_v = sum_k + sequence * head_dim;
  if (begins) {
    *sum_k = 0.0f;
    *sum_v = 0.0f;
    return;
  }
  const long task = first_task + index;
  const long token = task / kv_heads * sequence + key, head = task % kv_heads;
  PUT(AT(Element, dk), token * dk_token + head * dk_head + d, *sum_k);
  PUT(AT(Element, dv), token * dv_token + head * dv_head + d, *sum_v);
}
