'use strict';
// Curves by step. Each chart is drawn once for the steps that there are, onto a canvas of its own; moving the cursor
// only copies it. Charts that have something new wait in a queue, from which each frame takes one.
const kDot = 6;  // pixels
let logarithmic = false, at = null, colours = [];

const number = (value, digits) => value === null || value === undefined ? 'none'
  : Math.abs(value) >= 1e5 ? value.toLocaleString('en', {maximumFractionDigits: 0})
  : String(Number(value.toFixed(digits)));
const last = list => list.length ? list[list.length - 1] : null;

function readColours() {
  const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue('--' + name).trim();
  colours = [0, 1, 2, 3, 4, 5].map(i => colour('series' + i));
  for (const name of ['line', 'quiet', 'text', 'back']) colours[name] = colour(name);
}

// The smallest and largest value of every pixel column: a chart of 10,000 steps has no more to draw than one of 500.
function decimate(run, key, first, span, width) {
  const steps = run.columns.step, values = run.columns[key] || [];
  const low = new Float64Array(width).fill(Infinity), high = new Float64Array(width).fill(-Infinity);
  const scale = (width - 1) / span;
  let points = 0;
  for (let i = 0; i < steps.length; ++i) {
    const value = values[i];
    if (value === null || value === undefined) continue;
    ++points;
    const x = (steps[i] - first) * scale | 0;
    if (value < low[x]) low[x] = value;
    if (value > high[x]) high[x] = value;
  }
  return {low, high, points};
}

// Of what is finite; a little room where all values are the same.
function bounds(lists, map) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const value of list) {
    if (value === null || !isFinite(value)) continue;
    const y = map(value);
    if (y < low) low = y;
    if (y > high) high = y;
  }
  if (low > high) return [0, 1];
  return low === high ? [low - Math.abs(low || 1) * .05, high + Math.abs(high || 1) * .05] : [low, high];
}

function stepsOf(runs) {
  let first = Infinity, end = -Infinity;
  for (const run of runs) { const s = run.columns.step; if (s.length) { first = Math.min(first, s[0]); end = Math.max(end, last(s)); } }
  return [first, end];
}

const tick = value => value === 0 ? '0' : Math.abs(value) >= 1000 ? Number((value / 1000).toPrecision(3)) + 'k'
  : Math.abs(value) < 0.01 ? value.toExponential(1) : String(Number(value.toPrecision(3)));

// Three to seven round numbers from `low` to `high`: multiples of 1, 2 or 5 of a power of ten.
function roundTicks(low, high) {
  const span = high - low, power = 10 ** Math.floor(Math.log10(span / 3));
  const step = power * ([1, 2, 5, 10].find(factor => span / (power * factor) <= 6) || 10), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

function drawAxes(g, chart, low, high, Y, shown) {
  const {left, w, top, h} = chart;
  g.font = '11px system-ui, sans-serif'; g.fillStyle = colours.quiet; g.strokeStyle = colours.line; g.lineWidth = 1;
  g.textAlign = 'right'; g.textBaseline = 'middle';
  for (const value of logarithmicOf(chart) ? [0, 1, 2, 3, 4].map(i => low + (high - low) * i / 4) : roundTicks(low, high)) {
    const y = Math.round(Y(value)) + .5;
    g.beginPath(); g.moveTo(left, y); g.lineTo(left + w, y); g.stroke();
    g.fillText(tick(shown(value)), left - 6, y);
  }
  g.textBaseline = 'top'; g.textAlign = 'left'; g.fillText(chart.first, left, top + h + 4);
  g.textAlign = 'right'; g.fillText(chart.end, left + w, top + h + 4);
}

const logarithmicOf = chart => chart.key === 'loss' && logarithmic;

// Straight from value to value where there are few.
const kFewPoints = 400;
function drawLine(g, chart, d, Y, map) {
  g.lineWidth = 1.5; g.lineJoin = 'round';
  g.beginPath();
  for (let x = 0; x < chart.w; ++x) if (d.low[x] !== Infinity) g.lineTo(chart.left + x + .5, Y(map(d.low[x])));
  g.stroke();
}

// A bar from the lowest to the highest value of each column that reaches to the column before: a stroke of so many points
// would take ten times as long.
function drawCurve(g, chart, d, Y, map) {
  if (d.points > 1 && d.points <= Math.min(kFewPoints, chart.w)) return drawLine(g, chart, d, Y, map);
  let x0 = -1, low0 = 0, high0 = 0;
  for (let x = 0; x < chart.w; ++x) {
    if (d.low[x] === Infinity) continue;
    const low = Y(map(d.low[x])), high = Y(map(d.high[x]));  // low values are further down
    if (x0 >= 0 && x - x0 > 1) g.fillRect(chart.left + x0 + 1, high0, x - x0 - 1, 1.5);
    const top = x0 < 0 ? high : Math.min(high, low0), bottom = x0 < 0 ? low : Math.max(low, high0);
    g.fillRect(chart.left + x, top, 1, bottom - top + 1.5);
    x0 = x; low0 = low; high0 = high;
  }
}

// What of the runs is to be drawn: what the steps come to in each column of pixels.
function prepareChart(chart, runs) {
  [chart.first, chart.end] = stepsOf(runs);
  chart.curves = null;
  if (chart.first > chart.end || !chart.width) return;
  chart.span = Math.max(1, chart.end - chart.first);
  chart.left = 56; chart.top = 8; chart.w = Math.max(2, Math.floor(chart.width - chart.left - 4)); chart.h = chart.height - chart.top - 20;
  chart.curves = runs.map(run => decimate(run, chart.key, chart.first, chart.span, chart.w));
}

// Onto chart.drawn, which paintChart() copies.
function drawChart(chart, runs) {
  const ratio = window.devicePixelRatio || 1, width = Math.round(chart.width * ratio), height = Math.round(chart.height * ratio);
  if (!width || !height) return;
  if (!chart.drawn) chart.drawn = document.createElement('canvas');
  if (chart.drawn.width !== width || chart.drawn.height !== height) {
    chart.drawn.width = chart.canvas.width = width; chart.drawn.height = chart.canvas.height = height;
  }
  const g = chart.drawn.getContext('2d'), curves = chart.curves, extra = [];
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, chart.width, chart.height);
  if (!curves) return;
  const useLog = logarithmicOf(chart), map = useLog ? v => Math.log10(Math.max(v, 1e-12)) : v => v;
  if (chart.key === 'loss') for (const run of runs) extra.push(run.validation.map(v => v[1]));
  if (chart.key === 'seconds') for (const run of runs) if (run.predicted_seconds) extra.push([run.predicted_seconds]);
  const [low, high] = bounds([...curves.flatMap(d => [d.low, d.high]), ...extra], map);
  const Y = value => chart.top + chart.h - (value - low) / (high - low) * chart.h;
  drawAxes(g, chart, low, high, Y, value => useLog ? 10 ** value : value);
  runs.forEach((run, r) => {
    g.fillStyle = g.strokeStyle = colours[r % 6];
    drawCurve(g, chart, curves[r], Y, map);
    if (chart.key === 'loss') drawDots(g, chart, run.validation, Y, map);
    if (chart.key === 'seconds' && run.predicted_seconds) {
      const y = Y(run.predicted_seconds);
      g.lineWidth = 1.5; g.setLineDash([5, 4]); g.beginPath(); g.moveTo(chart.left, y); g.lineTo(chart.left + chart.w, y); g.stroke(); g.setLineDash([]);
    }
  });
}

function drawDots(g, chart, validation, Y, map) {
  g.fillStyle = colours.text;
  let before = -kDot;
  for (const [step, value] of validation) {
    const x = place(chart, step);
    if (x - before < kDot) continue;  // it would lie upon the one before
    before = x;
    g.fillRect(Math.round(x) - kDot / 2, Math.round(Y(map(value))) - kDot / 2, kDot, kDot);
  }
}

const place = (chart, step) => chart.left + (step - chart.first) / chart.span * (chart.w - 1);

function paintChart(chart, runs) {
  if (!chart.drawn) return;
  const g = chart.canvas.getContext('2d'), ratio = window.devicePixelRatio || 1;
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, chart.canvas.width, chart.canvas.height);
  g.drawImage(chart.drawn, 0, 0);
  if (at !== null && at >= chart.first && at <= chart.end) {
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = colours.text; g.fillRect(Math.round(place(chart, at)), chart.top, 1, chart.h);
  }
  readOut(chart, runs);
}

// The last step up to `at`: of a very long run not every step is here.
function indexOf(steps, at) {
  let low = 0, high = steps.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (steps[middle] <= at) low = middle; else high = middle - 1; }
  return low;
}

// What stands at the cursor, or at the end: read aloud when the cursor moves.
function readOut(chart, runs) {
  const parts = [];
  for (const run of runs) {
    const steps = run.columns.step, values = run.columns[chart.key] || [];
    if (!steps.length) continue;
    const index = at === null ? steps.length - 1 : indexOf(steps, at);
    parts.push((runs.length > 1 ? run.name + ' ' : '') + number(values[index], chart.digits));
    if (chart.key === 'loss' && run.validation.length) {
      const seen = at === null ? run.validation : run.validation.filter(v => v[0] <= at);
      if (seen.length) parts.push(`validation ${number(last(seen)[1], 4)} (dots)`);
    }
    if (chart.key === 'seconds' && run.predicted_seconds) parts.push(`predicted ${number(run.predicted_seconds, 4)} (dashes)`);
  }
  setText(chart.output, (at === null ? '' : `step ${at}: `) + parts.join(', '));
}

function setText(element, text) { if (element.textContent !== text) element.textContent = text; }
