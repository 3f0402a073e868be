// The last step as the devices did it, over the same step as it was predicted: a letter for each column of pixels.
const kPaint = new Uint32Array(128);  // by letter: alpha, blue, green, red
Object.entries({F: 0xffb97335, I: 0xff3aa7f0, W: 0xff99b64d, B: 0xff365acf, R: 0xff82ecf7, C: 0xffe0aee3, S: 0xff6d6159, '.': 0xffc1b9b4})
  .forEach(([letter, colour]) => { kPaint[letter.charCodeAt(0)] = colour; });
const kDevicesPerFrame = 8;
const kMeasured = 5, kPredicted = 2, kLaneRows = 9;  // pixels of a device, with a gap

// Those of `count` devices from `first` on.
function drawLanes(lanes, canvas, first, count) {
  const devices = lanes.measured.length, columns = lanes.measured[0].length, rows = devices * kLaneRows;
  if (!kLanes.image || kLanes.image.width !== columns || kLanes.image.height !== rows) {
    kLanes.image = new ImageData(columns, rows);
    canvas.width = columns; canvas.height = rows;
    canvas.style.height = rows * (devices > 16 ? 1 : 2) + 'px';
  }
  const pixels = new Uint32Array(kLanes.image.data.buffer);
  const fill = (lane, row, height) => {
    const begin = row * columns;
    for (let x = 0; x < columns; ++x) pixels[begin + x] = kPaint[lane.charCodeAt(x)];
    for (let y = 1; y < height; ++y) pixels.copyWithin(begin + y * columns, begin, begin + columns);
  };
  const end = Math.min(devices, first + count);
  for (let d = first; d < end; ++d) {
    fill(lanes.measured[d], d * kLaneRows, kMeasured);
    if (lanes.predicted[d]) fill(lanes.predicted[d], d * kLaneRows + kMeasured, kPredicted);
  }
  canvas.getContext('2d').putImageData(kLanes.image, 0, 0, 0, first * kLaneRows, columns, (end - first) * kLaneRows);
}

// The picture in words, for those who do not see it.
function describeLanes(lanes) {
  const computing = lane => lane.replace(/[^FIWBRS]/g, '').length;
  const shares = lanes.measured.map(lane => 100 * computing(lane) / lane.trimEnd().length || 0);
  return `Step ${lanes.step}: ${(1000 * lanes.seconds).toFixed(1)} ms` +
    (lanes.predicted_seconds ? `, predicted ${(1000 * lanes.predicted_seconds).toFixed(1)} ms` : '') +
    `; devices compute for ${Math.min(...shares).toFixed(0)} to ${Math.max(...shares).toFixed(0)} % of it`;
}

// A few devices in each frame; returns whether some are left.
function showLanes(runs) {
  const lanes = runs.length === 1 ? runs[0].lanes : null;
  byId('lanes').hidden = !lanes;
  if (!lanes) return false;
  const first = kLanes.next || 0;
  drawLanes(lanes, byId('lane'), first, kDevicesPerFrame);
  kLanes.next = first + kDevicesPerFrame;
  if (kLanes.next < lanes.measured.length) return true;
  kLanes.next = 0;
  setText(byId('lane-text'), describeLanes(lanes));
  return false;
}
