'use strict';
// One page for a run that goes on (it asks for what is new every second), a run that has ended, and several
// runs side by side. Everything that is drawn comes from `runs`.
const embedded = JSON.parse(document.getElementById('data').textContent);
let runs = embedded.runs || [];
const live = embedded.live === true;
const byId = id => document.getElementById(id);
const kCharts = [
  {key: 'loss', title: 'Loss', digits: 4}, {key: 'tokens_per_second', title: 'Tokens per second', digits: 0},
  {key: 'seconds', title: 'Seconds per step', digits: 4}, {key: 'gradient_norm', title: 'Gradient norm', digits: 3},
  {key: 'lr', title: 'Learning rate', digits: 6},
];
let logarithmic = false, at = null, colours = [];

const number = (value, digits) => value === null || value === undefined ? 'none'
  : Math.abs(value) >= 1e5 ? value.toLocaleString('en', {maximumFractionDigits: 0})
  : String(Number(value.toFixed(digits)));
const bytes = n => { let unit = 0; while (n >= 1024 && unit < 4) { n /= 1024; ++unit; }
  return n.toFixed(unit ? 2 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]; };
const duration = s => !isFinite(s) ? 'unknown' : s < 60 ? s.toFixed(0) + ' s' : s < 3600 ? (s / 60).toFixed(0) + ' min'
  : Math.floor(s / 3600) + ' h ' + Math.round(s % 3600 / 60) + ' min';
const last = list => list.length ? list[list.length - 1] : null;
const columns = run => run.columns;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = [0, 1, 2, 3, 4, 5].map(i => style.getPropertyValue('--series' + i).trim());
  colours.line = style.getPropertyValue('--line').trim();
  colours.quiet = style.getPropertyValue('--quiet').trim();
  colours.text = style.getPropertyValue('--text').trim();
}

// The smallest and largest value of every pixel column, made once for the steps that there are: a chart of 10,000
// steps costs no more to draw again than one of 500.
function decimate(chart, r, first, span, width) {
  const steps = columns(runs[r]).step, values = columns(runs[r])[chart.key] || [];
  const key = [steps.length, first, span, width].join();
  chart.known = chart.known || [];
  if (chart.known[r] && chart.known[r].key === key) return chart.known[r];
  const low = new Float64Array(width).fill(Infinity), high = new Float64Array(width).fill(-Infinity);
  const scale = (width - 1) / span;
  for (let i = 0; i < steps.length; ++i) {
    const value = values[i];
    if (value === null) continue;
    const x = (steps[i] - first) * scale | 0;
    if (value < low[x]) low[x] = value;
    if (value > high[x]) high[x] = value;
  }
  return chart.known[r] = {key, low, high};
}

// Of what is finite; a little room where all values are the same.
function bounds(lists, map) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const value of list) {
    if (!isFinite(value) || value === null) continue;
    const y = map(value);
    if (y < low) low = y;
    if (y > high) high = y;
  }
  if (low > high) return [0, 1];
  return low === high ? [low - Math.abs(low || 1) * .05, high + Math.abs(high || 1) * .05] : [low, high];
}

function drawChart(chart) {
  const canvas = chart.canvas, ratio = window.devicePixelRatio || 1;
  const width = chart.width, height = chart.height;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  const useLog = chart.key === 'loss' && logarithmic;
  const map = useLog ? v => Math.log10(Math.max(v, 1e-12)) : v => v;
  let first = Infinity, end = -Infinity;
  for (const run of runs) { const s = columns(run).step; if (s.length) { first = Math.min(first, s[0]); end = Math.max(end, last(s)); } }
  if (first > end) return;
  const span = Math.max(1, end - first), left = 56, top = 8, w = Math.max(2, Math.floor(width - left - 4)), h = height - top - 20;
  const drawn = runs.map((run, r) => decimate(chart, r, first, span, w));
  const extra = [];
  if (chart.key === 'loss') for (const run of runs) extra.push(run.validation.map(v => v[1]));
  if (chart.key === 'seconds') for (const run of runs) if (run.predicted_seconds) extra.push([run.predicted_seconds]);
  const [low, high] = bounds([...drawn.flatMap(d => [d.low, d.high]), ...extra], map);
  const X = step => left + (step - first) / span * (w - 1);
  const Y = value => top + h - (value - low) / (high - low) * h;
  g.font = '11px system-ui, sans-serif'; g.fillStyle = colours.quiet; g.strokeStyle = colours.line; g.lineWidth = 1;
  g.textAlign = 'right'; g.textBaseline = 'middle';
  for (let i = 0; i <= 4; ++i) {
    const value = low + (high - low) * i / 4, y = Math.round(Y(value)) + .5;
    g.beginPath(); g.moveTo(left, y); g.lineTo(left + w, y); g.stroke();
    const shown = useLog ? 10 ** value : value;
    g.fillText(shown === 0 ? '0' : Math.abs(shown) >= 1000 ? (shown / 1000).toPrecision(3) + 'k'
      : Math.abs(shown) < 0.01 ? shown.toExponential(1) : shown.toPrecision(3), left - 6, y);
  }
  g.textBaseline = 'top'; g.textAlign = 'left'; g.fillText(first, left, top + h + 4);
  g.textAlign = 'right'; g.fillText(end, left + w, top + h + 4);
  runs.forEach((run, r) => {
    g.strokeStyle = g.fillStyle = colours[r % 6]; g.lineWidth = 1.5; g.lineJoin = 'round';
    const d = drawn[r];
    g.beginPath();
    let drawing = false;
    for (let x = 0; x < w; ++x) {
      if (d.low[x] === Infinity) continue;
      const bottom = Y(map(d.low[x]));
      if (drawing) g.lineTo(left + x, bottom); else { g.moveTo(left + x, bottom); drawing = true; }
      if (d.high[x] !== d.low[x]) g.lineTo(left + x, Y(map(d.high[x])));
    }
    g.stroke();
    if (chart.key === 'loss') for (const [step, value] of run.validation) {
      g.fillStyle = colours.text; g.beginPath(); g.arc(X(step), Y(map(value)), 3, 0, 7); g.fill();
    }
    if (chart.key === 'seconds' && run.predicted_seconds) {
      g.setLineDash([5, 4]); g.beginPath(); g.moveTo(left, Y(run.predicted_seconds)); g.lineTo(left + w, Y(run.predicted_seconds)); g.stroke(); g.setLineDash([]);
    }
  });
  if (at !== null && at >= first && at <= end) {
    g.strokeStyle = colours.text; g.lineWidth = 1; g.beginPath(); g.moveTo(Math.round(X(at)) + .5, top); g.lineTo(Math.round(X(at)) + .5, top + h); g.stroke();
  }
  chart.X = X; chart.first = first; chart.end = end; chart.left = left; chart.w = w; chart.span = span;
  readOut(chart);
}

// What stands at the cursor, or at the end: read aloud when the cursor moves.
function readOut(chart) {
  const parts = [];
  runs.forEach((run, r) => {
    const steps = columns(run).step, values = columns(run)[chart.key] || [];
    if (!steps.length) return;
    const index = at === null ? steps.length - 1 : Math.min(steps.length - 1, Math.max(0, at - steps[0]));
    const name = runs.length > 1 ? run.name + ' ' : '';
    parts.push(`${name}${number(values[index], chart.digits)}`);
    if (chart.key === 'loss' && run.validation.length) {
      const seen = at === null ? run.validation : run.validation.filter(v => v[0] <= at);
      if (seen.length) parts.push(`validation ${number(last(seen)[1], 4)} (dots)`);
    }
    if (chart.key === 'seconds' && run.predicted_seconds) parts.push(`predicted ${number(run.predicted_seconds, 4)} (dashes)`);
  });
  const text = (at === null ? '' : `step ${at}: `) + parts.join(', ');
  if (chart.output.textContent !== text) chart.output.textContent = text;
}

function moveTo(step) {
  const chart = kCharts[0];
  if (step !== null && chart.first !== undefined) step = Math.min(chart.end, Math.max(chart.first, Math.round(step)));
  if (step === at) return;
  at = step;
  redraw();
}

function makeCharts() {
  for (const chart of kCharts) {
    const figure = document.createElement('figure'), caption = document.createElement('figcaption');
    const title = document.createElement('span');
    title.textContent = chart.title;
    chart.output = document.createElement('output');
    caption.append(title, chart.output);
    chart.canvas = document.createElement('canvas');
    chart.canvas.tabIndex = 0;
    chart.canvas.setAttribute('role', 'img');
    chart.canvas.setAttribute('aria-label', chart.title + ' by step; arrow keys read it step by step');
    figure.append(caption, chart.canvas);
    byId('charts').append(figure);
    chart.canvas.addEventListener('pointermove', e => moveTo(chart.first + (e.offsetX - chart.left) / (chart.w - 1) * chart.span));
    chart.canvas.addEventListener('pointerleave', () => moveTo(null));
    chart.canvas.addEventListener('keydown', e => {
      const here = at === null ? chart.end : at;
      const to = {ArrowLeft: here - 1, ArrowRight: here + 1, Home: chart.first, End: chart.end, Escape: null}[e.key];
      if (to === undefined) return;
      e.preventDefault();
      moveTo(to);
    });
    new ResizeObserver(entries => {
      chart.width = entries[0].contentRect.width; chart.height = entries[0].contentRect.height; redraw();
    }).observe(chart.canvas);
  }
  addEventListener('keydown', e => { if (e.key === 'l' || e.key === 'L') { logarithmic = !logarithmic; redraw(); } });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(); });
}

function figures() {
  const list = [];
  for (const run of runs) {
    const c = columns(run), steps = c.step, name = runs.length > 1 ? run.name + ': ' : '';
    if (!steps.length) continue;
    const recent = c.seconds.slice(-20).sort((a, b) => a - b), median = recent[recent.length >> 1];
    list.push([name + 'step', `${last(steps)} of ${run.steps}`], [name + 'loss', number(last(c.loss), 4)]);
    if (run.validation.length) list.push([name + 'validation', number(last(run.validation)[1], 4)]);
    list.push([name + 'tokens/s', number(last(c.tokens_per_second), 0)]);
    if (!run.done) list.push([name + 'left', duration((run.steps - last(steps)) * median)]);
    if (run.predicted_seconds) list.push([name + 'step, of predicted', (100 * median / run.predicted_seconds).toFixed(0) + ' %']);
  }
  byId('figures').replaceChildren(...list.map(([name, value]) => {
    const box = document.createElement('div'), label = document.createElement('span'), bold = document.createElement('b');
    label.textContent = name; bold.textContent = value; box.append(label, bold);
    return box;
  }));
}

function memory() {
  const rows = [];
  for (const run of runs) run.devices.forEach((device, d) => {
    const limit = device.budget || device.planned;
    const bar = document.createElement('div'), name = document.createElement('span'), track = document.createElement('i');
    const fill = document.createElement('b'), text = document.createElement('span');
    bar.className = 'bar';
    name.textContent = (runs.length > 1 ? run.name + ' ' : '') + 'device ' + d;
    fill.style.width = (100 * (device.peak || device.planned) / limit).toFixed(1) + '%';
    track.append(fill);
    text.textContent = (device.peak ? `peak ${bytes(device.peak)}, ` : '') + `planned ${bytes(device.planned)}` +
      (device.budget ? ` of ${bytes(device.budget)}` : ', no budget') +
      (device.busy !== undefined ? `; busy ${(1000 * device.busy).toFixed(1)} ms, waits ${(1000 * device.wait).toFixed(1)} ms a step` : '');
    bar.append(name, track, text);
    rows.push(bar);
  });
  byId('memory').hidden = rows.length === 0;
  byId('devices').replaceChildren(...rows);
}

function texts() {
  const events = runs.flatMap(run => run.events.map(text => (runs.length > 1 ? run.name + ': ' : '') + text));
  byId('log').hidden = events.length === 0;
  byId('events').replaceChildren(...events.slice(-200).map(text => { const item = document.createElement('li'); item.textContent = text; return item; }));
  byId('config').textContent = runs.map(run => run.config).join('\n');
}

function table() {
  if (!byId('numbers').open || !runs.length) return;
  const run = runs[0], c = columns(run), names = ['step', ...kCharts.map(chart => chart.key)];
  const row = (cells, tag) => { const tr = document.createElement('tr'); for (const cell of cells) { const td = document.createElement(tag); td.textContent = cell; tr.append(td); } return tr; };
  const rows = [row(names, 'th')];
  for (let i = Math.max(0, c.step.length - 20); i < c.step.length; ++i) rows.push(row(names.map(n => c[n][i] === null ? 'none' : String(c[n][i])), 'td'));
  byId('table').replaceChildren(...rows);
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; kCharts.forEach(drawChart); });
}

function show() { figures(); table(); redraw(); }

function state(text) { if (byId('state').textContent !== text) byId('state').textContent = text; }

function merge(fresh) {
  const run = runs[0], c = run.columns;
  const known = c.step.length ? last(c.step) : 0;
  for (let i = 0; i < fresh.columns.step.length; ++i) {
    if (fresh.columns.step[i] <= known) continue;
    for (const key in fresh.columns) c[key].push(fresh.columns[key][i]);
  }
  run.validation = fresh.validation;
  if (fresh.events.length !== run.events.length) { run.events = fresh.events; texts(); }
  if (JSON.stringify(fresh.devices) !== JSON.stringify(run.devices)) { run.devices = fresh.devices; memory(); }
  run.predicted_seconds = fresh.predicted_seconds; run.done = fresh.done; run.steps = fresh.steps;
}

async function poll() {
  let wait = 1000;
  try {
    const known = runs.length ? last(runs[0].columns.step) || 0 : 0;
    const answer = await fetch('data?after=' + known, {cache: 'no-store'});
    const fresh = (await answer.json()).runs[0];
    if (!runs.length) { runs = [fresh]; texts(); memory(); } else merge(fresh);
    state(fresh.done ? 'ended' : 'running');
    show();
    if (fresh.done) return;
  } catch (error) {
    state('no answer: the run has ended, or is out of reach'); wait = 5000;
  }
  setTimeout(poll, wait);
}

readColours();
makeCharts();
byId('numbers').addEventListener('toggle', table);
if (runs.length) { texts(); memory(); show(); state(embedded.state || 'ended'); }
if (live) poll();
