// out = a · b + bias, or out += a · b + bias. A group of 64 lanes has a tile of 16 rows and 64
// columns of out, a lane 4 × 4 elements of it: rows that are neighbours, columns 16 apart.
//
// An element is a chain of fused multiply-adds along k, cut every `depth`; the pieces are added in
// order, to what was in an f32 out, or before a bf16 out is rounded.
#define TILE_ROWS 16
#define TILE_COLUMNS 64

KERNEL void matmul(GLOBAL char* arena, long m, long n, long k, long depth, long a, long a_row,
                   long a_column, long a_batch, long b, long b_row, long b_column, long b_batch,
                   long out, long out_row, long out_batch, long out_bf16, long accumulate, long bias,
                   long bias_bf16) {
  const long wide = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const long high = (m + TILE_ROWS - 1) / TILE_ROWS;
  const long batch = GROUP / (wide * high);
  const long row = GROUP / wide % high * TILE_ROWS + LANE / 16 * 4;
  const long column = GROUP % wide * TILE_COLUMNS + LANE % 16;
  GLOBAL const Element* left = AT(const Element, a) + batch * a_batch;
  GLOBAL const Element* right = AT(const Element, b) + batch * b_batch;
  const long element = out_bf16 ? 2 : 4;
  GLOBAL char* to = arena + out + batch * out_batch * element;
  // What lies beyond the edge is computed from the last row or column, and not written.
  long rows[4], columns[4], of_row[4], of_column[4];
  for (int i = 0; i < 4; ++i) {
    rows[i] = row + i < m ? row + i : m - 1;
    columns[i] = column + 16 * i < n ? column + 16 * i : n - 1;
    of_row[i] = rows[i] * a_row;
    of_column[i] = columns[i] * b_column;
  }
  float total[4][4];
  for (long begin = 0; begin < k; begin += depth) {
    const long end = begin + depth < k ? begin + depth : k;
    float sum[4][4];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) sum[i][j] = 0.0f;
    for (long step = begin; step < end; ++step) {
      GLOBAL const Element* down = left + step * a_column;
      GLOBAL const Element* along = right + step * b_row;
      float l[4], r[4];
      for (int i = 0; i < 4; ++i) l[i] = GET(down, of_row[i]);
      for (int j = 0; j < 4; ++j) r[j] = GET(along, of_column[j]);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] = FMA(l[i], r[j], sum[i][j]);
    }
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        float value = sum[i][j];
        if (begin > 0) {
          value = total[i][j] + value;
        } else if (!out_bf16) {
          if (bias >= 0) value = value + get_as(arena + bias, columns[j], (int)bias_bf16);
          // Beyond the edge somebody else may be writing there by now.
          if (accumulate && row + i < m && column + 16 * j < n)
            value = get_as(to, rows[i] * out_row + columns[j], 0) + value;
        }
        total[i][j] = value;
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (row + i >= m || column + 16 * j >= n) continue;
      float value = total[i][j];
      if (out_bf16) {
        if (bias >= 0) value = value + get_as(arena + bias, columns[j], (int)bias_bf16);
        if (accumulate) value = get_as(to, rows[i] * out_row + columns[j], 1) + value;
      }
      put_as(to, rows[i] * out_row + columns[j], (int)out_bf16, value);
    }
  }
}
