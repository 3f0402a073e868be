// What follows the pointer, and moving about.

function drawAbove(panel, pointerX) {
  const height = panel.rows.length * rowHeight;
  const pen = prepare(panel.above, height);
  clipToLanes(pen, height);
  if (hovered && hovered.panel === panel && hovered.span !== null) drawRelated(pen, panel, hovered.span);
  pen.restore();
  if (pointerX === null || pointerX < LEFT || pointerX > width - RIGHT) return;
  pen.fillStyle = colours.cursor;
  pen.globalAlpha = 0.5;
  pen.fillRect(pointerX, 0, 1, height);
}

/// Outlines every action of the same microbatch and draws its messages from device to device.
function drawRelated(pen, panel, span) {
  const { trace } = panel;
  pen.strokeStyle = colours.cursor;
  for (const i of panel.related.get(trace.microbatch[span]) ?? [span]) {
    if (trace.begin[i] > view.to || trace.end[i] < view.from) continue;
    const x = xOf(trace.begin[i]), right = xOf(trace.end[i]), y = trace.device[i] * rowHeight;
    pen.lineWidth = i === span ? 3 : 1.5;
    if (trace.peer[i] < 0) {
      pen.strokeRect(x, y, Math.max(right - x - 1, 1), rowHeight - 2);
    } else {
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, y + rowHeight / 2);
      pen.lineTo(right, trace.peer[i] * rowHeight + rowHeight / 2);
      pen.stroke();
    }
  }
}

function spanUnder(panel, x, y) {
  const device = Math.floor(y / rowHeight);
  if (device < 0 || device >= panel.rows.length || x < LEFT || x > width - RIGHT) return null;
  const row = panel.rows[device], time = timeAt(x), slack = 1.5 / scale();
  for (let at = firstAfter(panel.trace, row, time - slack); at < row.length; ++at) {
    if (panel.trace.begin[row[at]] > time + slack) break;
    if (panel.trace.end[row[at]] >= time) return row[at];
  }
  return null;
}

/// The shortest one there: several may be on their way at once.
function exchangeUnder(panel, x, y) {
  const { exchanges } = panel.trace, device = Math.floor(y / rowHeight), time = timeAt(x), slack = 1.5 / scale();
  if (y - device * rowHeight < boxHeight(panel) || x < LEFT || x > width - RIGHT) return null;
  let found = null;
  const length = (i) => exchanges.end[i] - exchanges.begin[i];
  for (let i = 0; i < exchanges.count; ++i) {
    if (exchanges.device[i] !== device || exchanges.begin[i] > time + slack || exchanges.end[i] < time - slack) continue;
    if (found === null || length(i) < length(found)) found = i;
  }
  return found;
}

function describeExchange(panel, i) {
  const { exchanges } = panel.trace, length = exchanges.end[i] - exchanges.begin[i];
  const hidden = length - exchanges.waited[i];
  return [`${data.words[exchanges.kind[i]]} in ${data.words[exchanges.word[i]]}`,
          `device ${exchanges.device[i]} sends ${exchanges.bytes[i].toLocaleString()} bytes\n` +
          `${formatTime(exchanges.begin[i])} to ${formatTime(exchanges.end[i])}\ntakes ${formatTime(length)}\n` +
          `${formatTime(hidden)} (${percent(length > 0 ? hidden / length : 0)}) hidden behind compute`];
}

function describe(panel, x, y) {
  const exchange = exchangeUnder(panel, x, y);
  if (exchange !== null) return describeExchange(panel, exchange);
  const { trace } = panel, i = spanUnder(panel, x, y);
  const device = Math.min(Math.max(Math.floor(y / rowHeight), 0), panel.rows.length - 1);
  const own = trace.devices[device];
  if (i === null && x > width - RIGHT) {
    return [`device ${device}`, `busy ${formatTime(own.busy)}\ncollectives ${formatTime(own.collective)}\n` +
            `wait ${formatTime(own.wait)}\npeak activations ${own.peak_activations} microbatches`];
  }
  if (i === null) return null;
  const paint = data.paints[trace.paint[i]].name;
  const parts = [paint === "wait" ? "waiting" : paint];
  if (trace.stage[i] >= 0) parts.push(`stage ${trace.stage[i]}`);
  if (trace.microbatch[i] >= 0) parts.push(`microbatch ${trace.microbatch[i]}`);
  return [data.words[trace.word[i]], `${parts.join(", ")}\ndevice ${device}\n` +
          `${formatTime(trace.begin[i])} to ${formatTime(trace.end[i])}\n` +
          `takes ${formatTime(trace.end[i] - trace.begin[i])}`];
}

function hover(panel, event) {
  const box = panel.lanes.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  hovered = { panel, span: spanUnder(panel, x, y) };
  for (const other of panels) drawAbove(other, x);
  const text = describe(panel, x, y);
  tip.hidden = text === null;
  if (text === null) return;
  tip.replaceChildren(element("b", text[0]), text[1]);
  const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
  tip.style.left = (right ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16) + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
}

function leave() {
  hovered = null;
  tip.hidden = true;
  for (const panel of panels) drawAbove(panel, null);
}

function show(from, to) {
  const length = Math.min(Math.max(to - from, data.end * 1e-7), data.end);
  view.from = Math.min(Math.max(from, 0), data.end - length);
  view.to = view.from + length;
  if (!frame) frame = requestAnimationFrame(redraw);
}

const zoom = (factor, time) => show(time - (time - view.from) * factor, time + (view.to - time) * factor);
const move = (time) => show(view.from + time, view.to + time);

function redraw() {
  frame = 0;
  drawAxis();
  for (const panel of panels) drawPanel(panel);
  if (hovered) for (const panel of panels) drawAbove(panel, null);
}

function layOut() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "quiet", "track", "line", "cursor"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
  colours.font = getComputedStyle(document.body).fontFamily;
  width = document.getElementById("axis").clientWidth;
  const rows = panels.reduce((sum, panel) => sum + panel.rows.length, 0);
  const free = innerHeight - document.querySelector("header").offsetHeight - 44 * panels.length - 8;
  rowHeight = Math.min(Math.max(Math.floor(free / rows), 8), 26);
  redraw();
}

function listen(panel) {
  const { lanes } = panel;
  let last = null;
  lanes.addEventListener("wheel", (event) => {
    const x = event.clientX - lanes.getBoundingClientRect().left;
    if (x < LEFT || x > width - RIGHT) return;  // the page scrolls
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (sideways) move(sideways / scale());
    if (!event.shiftKey && event.deltaY) zoom(Math.exp(event.deltaY * 0.0015), timeAt(x));
    hover(panel, event);
  }, { passive: false });
  lanes.addEventListener("pointerdown", (event) => {
    last = event.clientX;
    lanes.setPointerCapture(event.pointerId);
    lanes.classList.add("moving");
  });
  lanes.addEventListener("pointermove", (event) => {
    if (last === null) return hover(panel, event);
    move((last - event.clientX) / scale());
    last = event.clientX;
  });
  for (const end of ["pointerup", "pointercancel"]) {
    lanes.addEventListener(end, () => { last = null; lanes.classList.remove("moving"); });
  }
  lanes.addEventListener("pointerleave", leave);
}

const keys = {
  "0": () => show(0, data.end), "Home": () => show(0, data.end), "Escape": () => show(0, data.end),
  "+": () => zoom(0.7, (view.from + view.to) / 2), "=": () => zoom(0.7, (view.from + view.to) / 2),
  "-": () => zoom(1 / 0.7, (view.from + view.to) / 2),
  "ArrowLeft": () => move(-(view.to - view.from) / 8), "ArrowRight": () => move((view.to - view.from) / 8),
};

function makeLegend() {
  const used = new Map();
  for (const trace of data.traces) {
    trace.paint.forEach((paint, i) => {
      if (trace.peer[i] < 0 && trace.length[i] > 0) used.set(paint, Math.max(used.get(paint) ?? 0, trace.chunk[i]));
    });
  }
  for (const paint of [...used.keys()].sort()) {
    const item = element("li");
    for (let chunk = 0; chunk <= used.get(paint); ++chunk) {
      const swatch = element("i");
      swatch.style.background = data.paints[paint].shades[chunk].fill;
      if (paint === WAIT) swatch.style.opacity = FAINT;
      item.append(swatch);
    }
    item.append(data.paints[paint].name);
    document.getElementById("legend").append(item);
  }
}

for (const trace of data.traces) {
  trace.end = trace.begin.map((begin, i) => begin + trace.length[i]);
  trace.chunk = trace.stage.map((stage, i) => {
    const compute = stage >= 0 && trace.paint[i] < COMMUNICATION;  // the paints of compute come first
    return compute ? trace.chunk_of_stage[stage] : 0;
  });
}
panels = data.traces.map(makePanel);
panels.forEach(listen);
makeLegend();
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener("resize", layOut);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layOut);
layOut();
