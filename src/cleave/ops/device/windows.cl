// ── Squares that slide over images, and what convolutional networks need beside them ─────────────

// One item for a value of the rows that unfold writes.
KERNEL void unfold(GLOBAL char* arena, long count, long channels, long width, long size, long stride,
                   long places, long out_width, long x, long x_stride, long columns,
                   long columns_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long row_length = channels * size * size;
  const long row = i / row_length, at = i % row_length;
  const long channel = at / (size * size), ky = at / size % size, kx = at % size;
  const long place = row % places;
  const long y = place / out_width * stride + ky, z = place % out_width * stride + kx;
  AT(Element, columns)[row * columns_stride + at] =
      AT(const Element, x)[row / places * x_stride + (y * width + z) * channels + channel];
}

// One item for a value of the images: the places that cover it, first to last, each add one value.
KERNEL void fold(GLOBAL char* arena, long count, long channels, long width, long values, long size,
                 long stride, long out_height, long out_width, long columns, long columns_stride,
                 long x, long x_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / values, at = i % values;
  const long channel = at % channels, z = at / channels % width, y = at / channels / width;
  const long top = (y - size + stride) / stride, left = (z - size + stride) / stride;
  GLOBAL const Element* rows =
      AT(const Element, columns) + sample * out_height * out_width * columns_stride;
  float sum = 0.0f;
  for (long oy = top > 0 ? top : 0; oy <= y / stride && oy < out_height; ++oy)
    for (long ox = left > 0 ? left : 0; ox <= z / stride && ox < out_width; ++ox) {
      const long ky = y - oy * stride, kx = z - ox * stride;
      sum = sum + GET(rows + (oy * out_width + ox) * columns_stride,
                      (channel * size + ky) * size + kx);
    }
  PUT(AT(Element, x), sample * x_stride + at, sum);
}

// Where the first of the largest values of a channel is in the square at (top, left), or the last NaN.
DEVICE long largest_in_square(GLOBAL const Element* x, long channels, long width, long size,
                              long top, long left, long channel) {
  long best = (top * width + left) * channels + channel;
  for (long ky = 0; ky < size; ++ky)
    for (long kx = 0; kx < size; ++kx) {
      const long at = ((top + ky) * width + left + kx) * channels + channel;
      const float value = GET(x, at);
      if (value > GET(x, best) || value != value) best = at;
    }
  return best;
}

// One item for a pooled value.
KERNEL void max_pool(GLOBAL char* arena, long count, long channels, long width, long size,
                     long stride, long places, long out_width, long x, long x_stride, long y,
                     long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long channel = i % channels, place = i / channels % places, sample = i / channels / places;
  GLOBAL const Element* image = AT(const Element, x) + sample * x_stride;
  AT(Element, y)[sample * y_stride + place * channels + channel] =
      image[largest_in_square(image, channels, width, size, place / out_width * stride,
                              place % out_width * stride, channel)];
}

// One item for a value of the images, which lies in one square at most.
KERNEL void max_pool_gradient(GLOBAL char* arena, long count, long channels, long width, long values,
                              long size, long stride, long out_height, long out_width, long x,
                              long x_stride, long dy, long dy_stride, long dx, long dx_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / values, at = i % values;
  const long channel = at % channels, column = at / channels % width, row = at / channels / width;
  const long oy = row / stride, ox = column / stride;
  GLOBAL Element* out = AT(Element, dx) + sample * dx_stride + at;
  *out = 0;
  if (oy >= out_height || ox >= out_width || row % stride >= size || column % stride >= size) return;
  if (largest_in_square(AT(const Element, x) + sample * x_stride, channels, width, size, oy * stride,
                        ox * stride, channel) == at)
    *out = AT(const Element, dy)[sample * dy_stride + (oy * out_width + ox) * channels + channel];
}

// `from` where x is positive or NaN, else 0.
KERNEL void relu(GLOBAL char* arena, long count, long n, long inner, long x, long x0, long x1,
                 long from, long from0, long from1, long out, long o0, long o1) {
  const long i = ITEM;
  if (i >= count) return;
  const Element value = AT(const Element, from)[INDEX(i, from0, from1)];
  const int below = GET(AT(const Element, x), INDEX(i, x0, x1)) <= 0.0f;
  AT(Element, out)[INDEX(i, o0, o1)] = below ? (Element)0 : value;
}

// [rows, columns] of each sample becomes [columns, rows].
KERNEL void transpose_each(GLOBAL char* arena, long count, long rows, long columns, long x,
                           long x_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / (rows * columns), at = i % (rows * columns);
  AT(Element, y)[sample * y_stride + at] =
      AT(const Element, x)[sample * x_stride + at % rows * columns + at / rows];
}
