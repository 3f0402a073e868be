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
const bytes = n => { let unit = 0; while (n >= 1024 && unit < 4) { n /= 1024; ++unit; }
  return n.toFixed(unit ? 2 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]; };
const duration = s => !isFinite(s) ? 'unknown' : s < 60 ? s.toFixed(0) + ' s' : s < 3600 ? (s / 60).toFixed(0) + ' min'
  : Math.floor(s / 3600) + ' h ' + Math.round(s % 3600 / 60) + ' min';
const make = (tag, text, parts = []) => { const e = document.createElement(tag); if (text !== null) e.textContent = text; e.append(...parts); return e; };

// ---- Frames: of what has to be drawn, one thing in each, so that none takes long.
const kRowsPerFrame = 4;
const kLanes = {};  // drawn in its turn as a chart is
let waiting = false, rested = false, toDraw = new Set(), toPaint = new Set(), toAppend = [];
function nextFrame() { if (!waiting) { waiting = true; requestAnimationFrame(frame); } }
function redraw(draw) {
  for (const chart of kCharts) { (draw ? toDraw : toPaint).add(chart); if (draw) chart.prepared = false; }
  nextFrame();
}
// Long lists grow by a few rows in each frame, those of 64 devices in sixteen.
function replaceRows(parent, rows) {
  toAppend = toAppend.filter(([to]) => to !== parent).concat(rows.slice(kRowsPerFrame).map(row => [parent, row]));
  parent.replaceChildren(...rows.slice(0, kRowsPerFrame));
  if (toAppend.length) nextFrame();
}
function frame() {
  waiting = false;
  for (const [parent, row] of toAppend.splice(0, kRowsPerFrame)) parent.append(row);
  for (const drawn of toPaint) paintChart(drawn, runs);
  const painted = toPaint.size > 0, [chart] = toDraw;
  toPaint.clear();
  // A frame that has painted does not draw, unless the one before had to leave it as well.
  rested = painted && !rested;
  if (chart && !rested) {
    toDraw.delete(chart);
    drawPart(chart);
  }
  if (toDraw.size || toPaint.size || toAppend.length) nextFrame();
}
// Preparing, drawing and painting a chart take a frame each.
function drawPart(chart) {
  if (chart === kLanes) { if (showLanes(runs)) toDraw.add(kLanes); return; }
  chart.prepared = !chart.prepared;
  if (chart.prepared) { prepareChart(chart, runs); toDraw.add(chart); return; }
  drawChart(chart, runs);
  toPaint.add(chart);
}

function moveTo(step) {
  const chart = kCharts[0];
  if (step !== null && chart.first !== undefined) step = Math.min(chart.end, Math.max(chart.first, Math.round(step)));
  if (step === at) return;
  at = step;
  redraw(false);
}

function makeChart(chart) {
  chart.output = make('output', '');
  chart.canvas = make('canvas', null);
  chart.canvas.tabIndex = 0;
  chart.canvas.setAttribute('role', 'img');
  chart.canvas.setAttribute('aria-label', chart.title + ' by step; arrow keys read it step by step');
  byId('charts').append(make('figure', null, [make('figcaption', null, [make('span', chart.title), chart.output]), chart.canvas]));
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
    chart.width = entries[0].contentRect.width; chart.height = entries[0].contentRect.height; redraw(true);
  }).observe(chart.canvas);
}

function figureList() {
  const list = [];
  for (const run of runs) {
    const c = run.columns, steps = c.step, name = runs.length > 1 ? run.name + ': ' : '';
    if (!steps.length) continue;
    const recent = c.seconds.slice(-20).sort((a, b) => a - b), median = recent[recent.length >> 1];
    list.push([name + 'step', `${last(steps)} of ${run.steps}`], [name + 'loss', number(last(c.loss), 4)]);
    if (run.validation.length) list.push([name + 'validation', number(last(run.validation)[1], 4)]);
    list.push([name + 'tokens/s', number(last(c.tokens_per_second), 0)]);
    if (!run.done) list.push([name + 'left', duration((run.steps - last(steps)) * median)]);
    if (run.predicted_seconds) list.push([name + 'step, of predicted', (100 * median / run.predicted_seconds).toFixed(0) + ' %']);
  }
  return list;
}

// Boxes stay; only their text changes.
function figures() {
  const list = figureList(), parent = byId('figures');
  while (parent.children.length > list.length) parent.lastChild.remove();
  list.forEach(([name, value], i) => {
    const box = parent.children[i] || parent.appendChild(make('div', null, [make('span', ''), make('b', '')]));
    setText(box.firstChild, name); setText(box.lastChild, value);
  });
}

function deviceText(device) {
  return (device.peak ? `peak ${bytes(device.peak)}, ` : '') + `planned ${bytes(device.planned)}` +
    (device.budget ? ` of ${bytes(device.budget)}` : ', no budget') +
    (device.sent ? `; sends ${bytes(device.sent)} a step` : '') +
    (device.busy !== undefined ? `; busy ${(1000 * device.busy).toFixed(1)} ms, waits ${(1000 * device.wait).toFixed(1)} ms a step` : '');
}

function memory() {
  const rows = [];
  for (const run of runs) run.devices.forEach((device, d) => {
    const fill = make('b', null);
    fill.style.width = (100 * (device.peak || device.planned) / (device.budget || device.planned)).toFixed(1) + '%';
    const row = make('div', null, [make('span', (runs.length > 1 ? run.name + ' ' : '') + 'device ' + d), make('i', null, [fill]), make('span', deviceText(device))]);
    row.className = 'bar';
    rows.push(row);
  });
  byId('memory').hidden = rows.length === 0;
  replaceRows(byId('devices'), rows);
}

function texts() {
  const events = runs.flatMap(run => run.events.map(text => (runs.length > 1 ? run.name + ': ' : '') + text));
  byId('log').hidden = events.length === 0;
  replaceRows(byId('events'), events.slice(-200).map(text => make('li', text)));
  byId('config').textContent = runs.map(run => run.config).join('\n');
}

function table() {
  if (!byId('numbers').open || !runs.length) return;
  const c = runs[0].columns, names = ['step', ...kCharts.map(chart => chart.key)];
  const rows = [make('tr', null, names.map(name => make('th', name)))];
  for (let i = Math.max(0, c.step.length - 20); i < c.step.length; ++i)
    rows.push(make('tr', null, names.map(n => make('td', c[n][i] === null ? 'none' : String(c[n][i])))));
  byId('table').replaceChildren(...rows);
}

function show() { figures(); table(); redraw(true); }

function merge(fresh) {
  const run = runs[0], c = run.columns, known = last(c.step) || 0;
  for (let i = 0; i < fresh.columns.step.length; ++i) {
    if (fresh.columns.step[i] <= known) continue;
    for (const key in fresh.columns) c[key].push(fresh.columns[key][i]);
  }
  run.validation = fresh.validation;
  if (fresh.lanes) { run.lanes = fresh.lanes; toDraw.add(kLanes); }
  if (fresh.events.length !== run.events.length || last(fresh.events) !== last(run.events)) { run.events = fresh.events; texts(); }
  if (JSON.stringify(fresh.devices) !== JSON.stringify(run.devices)) { run.devices = fresh.devices; memory(); }
  run.predicted_seconds = fresh.predicted_seconds; run.done = fresh.done; run.steps = fresh.steps;
}

async function poll() {
  let wait = 1000;
  try {
    const known = runs.length ? last(runs[0].columns.step) || 0 : 0, lanes = runs.length && runs[0].lanes ? runs[0].lanes.step : 0;
    const answer = await fetch(`data?after=${known}&lanes=${lanes}`, {cache: 'no-store'});
    const fresh = (await answer.json()).runs[0];
    if (!runs.length) { runs = [fresh]; texts(); memory(); toDraw.add(kLanes); } else merge(fresh);
    setText(byId('state'), fresh.done && !fresh.more ? 'ended' : 'running');
    if (fresh.more) wait = 0; else show();  // a long run comes in parts
    if (fresh.done && !fresh.more) return;
  } catch (error) {
    setText(byId('state'), 'no answer: the run has ended, or is out of reach'); wait = 5000;
  }
  setTimeout(poll, wait);
}

readColours();
document.createElement('canvas').getContext('2d').fillText('0', 0, 0);  // the first text takes long: before there is anything to draw
kCharts.forEach(makeChart);
addEventListener('keydown', e => { if ((e.key === 'l' || e.key === 'L') && !e.ctrlKey && !e.metaKey) { logarithmic = !logarithmic; redraw(true); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(true); });
byId('numbers').addEventListener('toggle', table);
if (runs.length) { texts(); memory(); toDraw.add(kLanes); show(); setText(byId('state'), embedded.state || 'ended'); }
if (live) poll();
