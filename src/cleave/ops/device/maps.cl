// ── Images whose channels lie side by side ──────────────────────────────────────────────────────
//
// Sums are in f64, one after another, and rounded once.

// One item for a value of the padded images.
KERNEL void pad(GLOBAL char* arena, long count, long height, long width, long channels, long margin,
                long x, long x_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long wide = width + 2 * margin, values = (height + 2 * margin) * wide * channels;
  const long sample = i / values, at = i % values;
  const long channel = at % channels;
  const long row = at / channels / wide - margin, column = at / channels % wide - margin;
  const int inside = row >= 0 && row < height && column >= 0 && column < width;
  Element value = 0;
  if (inside)
    value = AT(const Element, x)[sample * x_stride + (row * width + column) * channels + channel];
  AT(Element, y)[sample * y_stride + at] = value;
}

// One item for a value of the images inside.
KERNEL void crop(GLOBAL char* arena, long count, long height, long width, long channels, long margin,
                 long y, long y_stride, long x, long x_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long wide = width + 2 * margin, values = height * width * channels;
  const long sample = i / values, at = i % values;
  const long row = at / channels / width + margin, column = at / channels % width + margin;
  AT(Element, x)[sample * x_stride + at] =
      AT(const Element, y)[sample * y_stride + (row * wide + column) * channels + at % channels];
}

// One item for a value of the large images. OpenCL C has a function called upsample.
KERNEL void upsample_maps(GLOBAL char* arena, long count, long height, long width, long channels,
                          long by, long x, long x_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long wide = width * by, values = height * by * wide * channels;
  const long sample = i / values, at = i % values, pixel = at / channels;
  const long from = pixel / wide / by * width + pixel % wide / by;
  AT(Element, y)[sample * y_stride + at] =
      AT(const Element, x)[sample * x_stride + from * channels + at % channels];
}

// One item for a value of the small images.
KERNEL void sum_squares(GLOBAL char* arena, long count, long height, long width, long channels,
                        long by, long y, long y_stride, long x, long x_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long wide = width * by, values = height * width * channels;
  const long sample = i / values, at = i % values, pixel = at / channels;
  const long corner = pixel / width * by * wide + pixel % width * by;
  double sum = 0.0;
  for (long k = 0; k < by * by; ++k)
    sum = sum + (double)GET(AT(const Element, y), sample * y_stride +
                                (corner + k / by * wide + k % by) * channels + at % channels);
  PUT(AT(Element, x), sample * x_stride + at, (float)sum);
}

// One item for a channel of a sample.
KERNEL void mean_pixels(GLOBAL char* arena, long count, long pixels, long channels, long x,
                        long x_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / channels, channel = i % channels;
  double sum = 0.0;
  for (long p = 0; p < pixels; ++p)
    sum = sum + (double)GET(AT(const Element, x), sample * x_stride + p * channels + channel);
  PUT(AT(Element, y), sample * y_stride + channel, (float)(sum / (double)pixels));
}

KERNEL void mean_pixels_gradient(GLOBAL char* arena, long count, long pixels, long channels, long dy,
                                 long dy_stride, long dx, long dx_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / (pixels * channels), at = i % (pixels * channels);
  const double slope = (double)GET(AT(const Element, dy), sample * dy_stride + at % channels);
  PUT(AT(Element, dx), sample * dx_stride + at, (float)(slope / (double)pixels));
}

// One item for a group of a sample.
KERNEL void group_statistics(GLOBAL char* arena, long count, long groups, long pixels, long channels,
                             float eps, long x, long x_stride, long mean, long mean_stride,
                             long rstd, long rstd_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / groups, group = i % groups, width = channels / groups;
  GLOBAL const Element* from = AT(const Element, x) + sample * x_stride + group * width;
  const double values = (double)(pixels * width);
  double sum = 0.0;
  for (long p = 0; p < pixels; ++p)
    for (long c = 0; c < width; ++c) sum = sum + (double)GET(from, p * channels + c);
  const double level = sum / values;
  double squares = 0.0;
  for (long p = 0; p < pixels; ++p)
    for (long c = 0; c < width; ++c) {
      const double off = (double)GET(from, p * channels + c) - level;
      squares = squares + off * off;
    }
  AT(float, mean)[sample * mean_stride + group] = (float)level;
  AT(float, rstd)[sample * rstd_stride + group] =
      (float)(1.0 / SQRT64(squares / values + (double)eps));
}

// One item for a value.
KERNEL void group_norm(GLOBAL char* arena, long count, long groups, long pixels, long channels,
                       long x, long x_stride, long weight, long bias, long mean, long mean_stride,
                       long rstd, long rstd_stride, long y, long y_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / (pixels * channels), at = i % (pixels * channels);
  const long channel = at % channels, group = channel / (channels / groups);
  const float off = GET(AT(const Element, x), sample * x_stride + at) -
                    AT(const float, mean)[sample * mean_stride + group];
  const float normed = off * AT(const float, rstd)[sample * rstd_stride + group];
  PUT(AT(Element, y), sample * y_stride + at,
      normed * GET(AT(const Element, weight), channel) + GET(AT(const Element, bias), channel));
}

// One item for a group of a sample.
KERNEL void group_norm_gradient(GLOBAL char* arena, long count, long groups, long pixels,
                                long channels, long dy, long dy_stride, long x, long x_stride,
                                long weight, long mean, long mean_stride, long rstd,
                                long rstd_stride, long dx, long dx_stride) {
  const long i = ITEM;
  if (i >= count) return;
  const long sample = i / groups, group = i % groups, width = channels / groups;
  GLOBAL const Element* from = AT(const Element, x) + sample * x_stride;
  GLOBAL const Element* slope = AT(const Element, dy) + sample * dy_stride;
  const double centre = (double)AT(const float, mean)[sample * mean_stride + group];
  const double factor = (double)AT(const float, rstd)[sample * rstd_stride + group];
  const double values = (double)(pixels * width);
  double level = 0.0, along = 0.0;
  for (long p = 0; p < pixels; ++p)
    for (long c = group * width; c < (group + 1) * width; ++c) {
      const long at = p * channels + c;
      const double scaled = (double)GET(slope, at) * (double)GET(AT(const Element, weight), c);
      level = level + scaled;
      along = along + scaled * (((double)GET(from, at) - centre) * factor);
    }
  level = level / values;
  along = along / values;
  for (long p = 0; p < pixels; ++p)
    for (long c = group * width; c < (group + 1) * width; ++c) {
      const long at = p * channels + c;
      const double scaled = (double)GET(slope, at) * (double)GET(AT(const Element, weight), c);
      const double normed = ((double)GET(from, at) - centre) * factor;
      PUT(AT(Element, dx), sample * dx_stride + at,
          (float)(factor * (scaled - level - normed * along)));
    }
}

// One item for a channel; a sum that is not wanted has offset -1.
KERNEL void group_norm_sums(GLOBAL char* arena, long channels, long groups, long samples,
                            long pixels, long dy, long dy_stride, long x, long x_stride, long mean,
                            long mean_stride, long rstd, long rstd_stride, long dweight,
                            long dbias) {
  const long channel = ITEM;
  if (channel >= channels) return;
  const long group = channel / (channels / groups);
  double along = 0.0, level = 0.0;
  for (long sample = 0; sample < samples; ++sample) {
    const double centre = (double)AT(const float, mean)[sample * mean_stride + group];
    const double factor = (double)AT(const float, rstd)[sample * rstd_stride + group];
    for (long at = channel; at < pixels * channels; at += channels) {
      const double slope = (double)GET(AT(const Element, dy), sample * dy_stride + at);
      const double value = (double)GET(AT(const Element, x), sample * x_stride + at);
      along = along + slope * (value - centre) * factor;
      level = level + slope;
    }
  }
  if (dweight >= 0) AT(float, dweight)[channel] = AT(float, dweight)[channel] + (float)along;
  if (dbias >= 0) AT(float, dbias)[channel] = AT(float, dbias)[channel] + (float)level;
}
