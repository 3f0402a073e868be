// What the page's main thread does between two chances to draw, by a Chromium trace: script and layout of its longest task,
// in time of that thread. Time in which other programs had the processor does not count.
const kWork = new Set(['FireAnimationFrame', 'FunctionCall', 'EventDispatch', 'TimerFire', 'RunMicrotasks', 'EvaluateScript', 'v8.run',
  'v8.callFunction', 'v8.compile', 'MinorGC', 'MajorGC', 'UpdateLayoutTree', 'Layout', 'HitTest', 'ParseHTML']);
const kPainting = new Set(['Paint', 'PrePaint', 'Layerize', 'Commit', 'UpdateLayer', 'CompositeLayers']);

/** The main thread that has most to do is that of the page. */
function mainThread(events) {
  const names = events.filter(e => e.name === 'thread_name' && e.args.name === 'CrRendererMain');
  const work = thread => events.filter(e => e.pid === thread.pid && e.tid === thread.tid).length;
  return names.sort((a, b) => work(b) - work(a))[0];
}

/** The longest task after the page was loaded, and its parts; a task of which the trace names nothing counts whole. */
export function longestFrame(events) {
  const thread = mainThread(events), mine = events.filter(e => e.pid === thread.pid && e.tid === thread.tid && e.ph === 'X').sort((a, b) => a.ts - b.ts);
  const marks = events.filter(e => e.pid === thread.pid && e.name === 'MarkLoad').map(e => e.ts), loaded = Math.max(0, ...marks);
  const tasks = [];
  let end = 0, inner = 0, frames = 0;
  for (const event of mine) {
    if (event.ts < loaded) continue;
    const taken = (event.tdur === undefined ? event.dur : event.tdur) / 1000;
    if (event.name === 'FireAnimationFrame') ++frames;
    if (event.name === 'RunTask' && event.ts >= end) { tasks.push({whole: taken, work: 0, paint: 0, parts: []}); end = event.ts + event.dur; inner = 0; continue; }
    if (!tasks.length || event.ts >= end || event.ts < inner) continue;  // what is inside of another counts once
    const task = tasks[tasks.length - 1], kind = kWork.has(event.name) ? 'work' : kPainting.has(event.name) ? 'paint' : null;
    if (!kind) continue;
    task[kind] += taken;
    inner = event.ts + event.dur;
    if (taken > .2) task.parts.push(`${event.name} ${taken.toFixed(1)}`);
  }
  for (const task of tasks) task.milliseconds = task.work || task.whole - task.paint;
  tasks.sort((a, b) => b.milliseconds - a.milliseconds);
  return {milliseconds: tasks[0].milliseconds, what: tasks[0].parts.join(', '), frames};
}
