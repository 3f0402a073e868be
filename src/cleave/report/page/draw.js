"use strict";
// Draws the timelines of `data`: one canvas per timeline, all on one time axis. Each canvas has a second one
// above it for what follows the pointer, so that hovering never redraws the boxes.
const data = JSON.parse(document.getElementById("data").textContent);
const LEFT = 44, RIGHT = 150, BAR = 90, FAINT = 0.3;
const paintNamed = (name) => data.paints.findIndex((paint) => paint.name === name);
const WAIT = paintNamed("wait"), COMMUNICATION = paintNamed("communication");
const view = { from: 0, to: data.end };
const tip = document.getElementById("tip");
let panels = [], colours = {}, hovered = null;

function formatTime(time) {
  const number = (value) => String(+value.toPrecision(5));
  if (data.unit !== "s") return number(time);
  const size = Math.abs(time);
  if (size === 0 || size >= 1) return number(time) + " s";
  return size >= 1e-3 ? number(time * 1e3) + " ms" : number(time * 1e6) + " µs";
}

for (const shade of data.paints.flatMap((paint) => paint.shades)) {
  shade.channels = [1, 3, 5].map((at) => parseInt(shade.fill.slice(at, at + 2), 16));
}

const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text ?? "" });
const percent = (share) => (100 * share).toFixed(1) + " %";

function makePanel(trace, index) {
  const section = element("section");
  const title = element("h2", trace.name);
  const peak = Math.max(...trace.devices.map((device) => device.peak_activations));
  let line = `makespan ${formatTime(trace.makespan)} · bubble ${percent(trace.bubble_rate)}` +
             ` · peak ${peak} microbatches`;
  const first = data.traces[0].makespan;
  if (index > 0 && first > 0) {
    const more = trace.makespan / first - 1;
    const sign = Math.abs(more) < 5e-4 ? "" : more > 0 ? "+" : "−";
    line += ` · ${sign}${percent(Math.abs(more))} against ${data.traces[0].name}`;
  }
  title.append(element("span", line));
  const lanes = element("div");
  lanes.className = "lanes";
  const base = element("canvas"), above = element("canvas");
  lanes.append(base, above);
  section.append(title, lanes);
  document.getElementById("panels").append(section);
  return { trace, lanes, base, above, ...indexSpans(trace) };
}

/// Collectives on their way have a strip of their own beneath the boxes of their device.
const stripHeight = (panel) => panel.trace.exchanges.count > 0 ? Math.max(2, Math.floor(rowHeight / 3)) : 0;
const boxHeight = (panel) => rowHeight - (rowHeight > 9 ? 2 : 1) - stripHeight(panel);

/// rows[device]: its spans in order of time, without transfers and what takes no time.
/// related[microbatch]: all that belong to it.
function indexSpans(trace) {
  const rows = Array.from({ length: trace.devices.length }, () => []);
  const related = new Map();
  for (let i = 0; i < trace.begin.length; ++i) {
    if (trace.peer[i] < 0 && trace.length[i] > 0) rows[trace.device[i]].push(i);
    const microbatch = trace.microbatch[i];
    if (microbatch < 0 || trace.paint[i] === WAIT) continue;
    if (!related.has(microbatch)) related.set(microbatch, []);
    related.get(microbatch).push(i);
  }
  return { rows, related };
}

/// The first place in `row` whose span ends after `time`.
function firstAfter(trace, row, time) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (trace.end[row[middle]] > time) high = middle; else low = middle + 1;
  }
  return low;
}

let width = 0, rowHeight = 20, frame = 0;
const scale = () => (width - LEFT - RIGHT) / (view.to - view.from);
const xOf = (time) => LEFT + (time - view.from) * scale();
const timeAt = (x) => view.from + (x - LEFT) / scale();

function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.round(width * ratio), high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return pen;
}

function clipToLanes(pen, height) {
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT - RIGHT, height);
  pen.clip();
}

/// Calls visit(span, begin, end) for what can be seen of a device, in pixels from the left of its lane.
function visible(panel, device, visit) {
  const { trace } = panel, row = panel.rows[device], per = scale();
  for (let at = firstAfter(trace, row, view.from); at < row.length; ++at) {
    const i = row[at];
    if (trace.begin[i] >= view.to) break;
    visit(i, (trace.begin[i] - view.from) * per, (trace.end[i] - view.from) * per);
  }
}

/// Where boxes are smaller than pixels, each pixel has the mean of its boxes' colours.
function drawBlend(pen, panel, device) {
  const { trace } = panel, wide = Math.floor(width - LEFT - RIGHT), high = boxHeight(panel);
  const sums = new Float32Array(4 * wide);
  visible(panel, device, (i, begin, end) => {
    const [red, green, blue] = data.paints[trace.paint[i]].shades[trace.chunk[i]].channels;
    const opaque = trace.paint[i] === WAIT ? FAINT : 1;
    for (let x = Math.max(Math.floor(begin), 0); x < Math.min(end, wide); ++x) {
      const share = (Math.min(end, x + 1) - Math.max(begin, x)) * opaque;
      sums[4 * x] += share * red;
      sums[4 * x + 1] += share * green;
      sums[4 * x + 2] += share * blue;
      sums[4 * x + 3] += share;
    }
  });
  const strip = new OffscreenCanvas(wide, 1), stripPen = strip.getContext("2d");
  const image = stripPen.createImageData(wide, 1);
  for (let x = 0; x < wide; ++x) {
    const share = sums[4 * x + 3];
    for (let channel = 0; channel < 3; ++channel) image.data[4 * x + channel] = sums[4 * x + channel] / (share || 1);
    image.data[4 * x + 3] = 255 * Math.min(share, 1);
  }
  stripPen.putImageData(image, 0, 0);
  pen.drawImage(strip, LEFT, device * rowHeight, wide, high);
}

function isCrowded(panel, device) {
  const { trace } = panel, row = panel.rows[device];
  return firstAfter(trace, row, view.to) - firstAfter(trace, row, view.from) > (width - LEFT - RIGHT) / 3;
}

/// Colour by colour: changing the pen's colour is what takes the time.
function drawBoxes(pen, panel, device) {
  const { trace } = panel, boxes = data.paints.map((paint) => paint.shades.map(() => []));
  const y = device * rowHeight, high = boxHeight(panel);
  visible(panel, device, (i, begin, end) => {
    boxes[trace.paint[i]][trace.chunk[i]].push(i, LEFT + begin, end - begin);
  });
  boxes.forEach((shades, paint) => shades.forEach((list, chunk) => {
    const shade = data.paints[paint].shades[chunk];
    pen.fillStyle = shade.fill;
    pen.globalAlpha = paint === WAIT ? FAINT : 1;
    for (let k = 0; k < list.length; k += 3) pen.fillRect(list[k + 1], y, shownWidth(list[k + 2]), high);
    if (rowHeight < 12 || paint === WAIT) return;
    pen.fillStyle = shade.text;
    for (let k = 0; k < list.length; k += 3) {
      drawNumber(pen, trace.microbatch[list[k]], list[k + 1], list[k + 2], y + high / 2);
    }
  }));
  pen.globalAlpha = 1;
}

const shownWidth = (wide) => wide - (wide > 4 ? 1 : 0);

/// In the middle of what can be seen of the box, if it has room.
function drawNumber(pen, microbatch, x, wide, y) {
  if (microbatch < 0 || wide < 11) return;
  const text = String(microbatch);
  const left = Math.max(x, LEFT), right = Math.min(x + shownWidth(wide), width - RIGHT);
  if (right - left >= 7 * text.length + 3) pen.fillText(text, (left + right) / 2, y + 0.5);
}

/// Faint while the device computed, full for as long as it waited: it computes first.
function drawExchanges(pen, panel) {
  const { exchanges } = panel.trace, per = scale(), high = stripHeight(panel);
  pen.fillStyle = data.paints[COMMUNICATION].shades[0].fill;
  for (let i = 0; i < exchanges.count; ++i) {
    if (exchanges.end[i] < view.from || exchanges.begin[i] > view.to) continue;
    const y = exchanges.device[i] * rowHeight + boxHeight(panel), end = xOf(exchanges.end[i]);
    const wide = end - xOf(exchanges.begin[i]), waited = exchanges.waited[i] * per;
    pen.globalAlpha = FAINT;
    pen.fillRect(end - wide, y, wide, high);
    pen.globalAlpha = 1;
    pen.fillRect(end - waited, y, waited, high);
  }
}

function drawMeter(pen, panel, device) {
  const y = device * rowHeight, high = rowHeight - (rowHeight > 9 ? 2 : 1);
  const own = panel.trace.devices[device], whole = panel.trace.makespan || 1;
  let x = width - RIGHT + 12;
  pen.fillStyle = colours.track;
  pen.fillRect(x, y, BAR, high);
  const parts = [[own.busy, colours.quiet, 0.75], [own.collective, data.paints[COMMUNICATION].shades[0].fill, 1],
                 [own.wait, data.paints[WAIT].shades[0].fill, FAINT]];
  for (const [time, colour, alpha] of parts) {
    pen.fillStyle = colour;
    pen.globalAlpha = alpha;
    pen.fillRect(x, y, BAR * time / whole, high);
    x += BAR * time / whole;
  }
  pen.globalAlpha = 1;
  if (rowHeight < 11) return;
  pen.fillStyle = colours.quiet;
  pen.textAlign = "right";
  pen.fillText((100 * own.busy / whole).toFixed(0) + " %", width - 4, y + high / 2 + 0.5);
}

function drawPanel(panel) {
  const count = panel.rows.length, height = count * rowHeight;
  const pen = prepare(panel.base, height);
  pen.font = Math.min(11, rowHeight - 2) + "px " + colours.font;
  for (let device = 0; device < count; ++device) {
    pen.fillStyle = colours.track;
    pen.fillRect(LEFT, device * rowHeight, width - LEFT - RIGHT, rowHeight - (rowHeight > 9 ? 2 : 1));
    drawMeter(pen, panel, device);
    const every = Math.ceil(11 / rowHeight);
    pen.fillStyle = colours.quiet;
    if (device % every === 0) pen.fillText(device, LEFT - 8, device * rowHeight + rowHeight / 2);
  }
  clipToLanes(pen, height);
  pen.textAlign = "center";
  for (let device = 0; device < count; ++device) {
    (isCrowded(panel, device) ? drawBlend : drawBoxes)(pen, panel, device);
  }
  drawExchanges(pen, panel);
  pen.restore();
}

function tickDistance() {
  const most = Math.max(2, (width - LEFT - RIGHT) / 90), length = view.to - view.from;
  const power = 10 ** Math.floor(Math.log10(length / most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((distance) => length / distance <= most);
}

function drawAxis() {
  const pen = prepare(document.getElementById("axis"), 22);
  pen.font = "11px " + colours.font;
  pen.textAlign = "center";
  const distance = tickDistance();
  for (let tick = Math.ceil(view.from / distance); tick * distance <= view.to; ++tick) {
    const x = xOf(tick * distance);
    pen.fillStyle = colours.line;
    pen.fillRect(x - 0.5, 17, 1, 5);
    pen.fillStyle = colours.quiet;
    pen.fillText(formatTime(tick * distance), x, 8);
  }
  pen.textAlign = "left";
  pen.fillText("busy", width - RIGHT + 12, 8);
  document.getElementById("range").textContent = `${formatTime(view.from)} to ${formatTime(view.to)}`;
}
