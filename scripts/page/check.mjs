// Run by scripts/check_page.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import {cleave, fail, launch, open, pageOf, pause, require, startRun, stopAll} from './browser.mjs';
import {longestFrame} from './frames.mjs';

const kSteps = 10000, kDevices = 64, kMost = 8;  // milliseconds of script and layout in a frame

/** A run of 10,000 steps on 64 devices that goes on, served as the program serves one: a step more with each question. */
function serveLongRun() {
  const noise = (step, i) => 2 + Math.sin(step * .7 + i) + 3 * Math.exp(-step / 800);
  const lane = (device, step) => Array.from({length: 800}, (_, x) => 'FFIW.BBS C'[(x * 7 + device * 3 + step) % 131 % 10]).join('');
  let newest = kSteps;
  const answer = (after, lanes) => {
    const end = Math.min(after + 1000, newest), steps = Array.from({length: Math.max(0, end - after)}, (_, i) => after + i + 1);
    const columns = {step: steps};
    ['loss', 'gradient_norm', 'lr', 'tokens_per_second', 'seconds'].forEach((key, i) => { columns[key] = steps.map(s => noise(s, i)); });
    const all = Array.from({length: kDevices}, (_, d) => lane(d, newest));
    return {name: 'long', config: '', steps: 2 * kSteps, predicted_seconds: 2, columns, more: end < newest, done: false,
      validation: Array.from({length: 100}, (_, i) => [100 * i + 100, 2.5]), events: Array(50).fill('saved'),
      lanes: lanes < newest ? {step: newest, seconds: 2.1, predicted_seconds: 2, measured: all, predicted: all} : undefined,
      devices: Array(kDevices).fill({planned: 1 << 30, budget: 1 << 31, peak: 1 << 30, sent: 1 << 20, busy: 1, wait: .5})};
  };
  const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost'), query = name => Number(url.searchParams.get(name) || 0);
    if (url.pathname === '/') return response.setHeader('Content-Type', 'text/html; charset=utf-8').end(pageOf({live: true, runs: []}));
    if (query('after') === newest) ++newest;
    response.end(JSON.stringify({runs: [answer(query('after'), query('lanes'))]}));
  });
  return new Promise(ready => server.listen(0, '127.0.0.1', () => ready(server)));
}

async function checkFrames(browser, work) {
  const server = await serveLongRun(), page = await open(browser, null);
  const trace = path.join(work, 'trace.json');
  await page.tracing.start({path: trace, categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline']});
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(steps => typeof runs !== 'undefined' && runs.length && runs[0].columns.step.length >= steps, {timeout: 60000}, kSteps);
  for (let i = 0; i < 80; ++i) {  // four seconds with the cursor on a chart, while new steps come
    await page.mouse.move(300 + 3 * i, 300);
    await pause(50);
  }
  await page.tracing.stop();
  if (page.complaints.length) fail(`the console has ${page.complaints[0]}`);
  await page.close();
  server.close();
  const longest = longestFrame(JSON.parse(fs.readFileSync(trace)).traceEvents);
  if (longest.milliseconds > kMost) fail(`a frame takes ${longest.milliseconds.toFixed(1)} ms of script and layout, more than ${kMost}: ${longest.what}`);
  return longest;
}

async function checkAccess(browser, url) {
  let rules = 0;
  for (const dark of [false, true]) for (const width of [1280, 390]) {
    const page = await open(browser, url, {width, dark});
    await page.waitForFunction(() => runs.length && runs[0].columns.step.length);
    await page.evaluate(() => document.querySelectorAll('details').forEach(d => { d.open = true; }));
    await page.evaluate(fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
    const found = await page.evaluate(() => axe.run());
    for (const violation of found.violations) fail(`axe-core, ${dark ? 'dark' : 'light'}, ${width} wide: ${violation.help} (${violation.nodes[0].html})`);
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wider > 0) fail(`at ${width} the page is ${wider} pixels too wide`);
    if (page.complaints.length) fail(`the console has ${page.complaints[0]}`);
    rules = found.passes.length;
    await page.close();
  }
  return rules;
}

/** Seconds of processor time: all threads, and those of the dashboard, which take less than a tick of the clock: by the scheduler's nanoseconds. */
function processorTime(pid) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8'), ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  let dashboard = 0, threads = 0;
  for (const task of fs.readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${task}`;
    if (fs.readFileSync(`${folder}/comm`, 'utf8').trim() !== 'dashboard') continue;
    dashboard += Number(fs.readFileSync(`${folder}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
    ++threads;
  }
  if (threads !== 3 || !(dashboard > 0)) fail(`${threads} threads are called dashboard and took ${dashboard} s; one listens and two answer, and they take some`);
  return {all: (Number(ticks[11]) + Number(ticks[12])) / 100, dashboard};
}

const kLive = ['train.steps=1000000', 'train.batch=2', 'train.sequence=32', 'parallel.pipeline=2',
  'train.schedule=constant', 'train.warmup=0'];  // so that weights do not depend on train.steps
const logOf = (work, out) => fs.readFileSync(path.join(work, out, 'log.jsonl'), 'utf8').split('\n').slice(0, -1).map(JSON.parse);

/** While a run goes on, the page has the numbers of log.jsonl, all of them; then the browser is killed, and the run goes on. */
async function checkLive(work) {
  const browser = await launch(), run = await startRun(work, kLive), page = await open(browser, run.url);
  await page.waitForFunction(() => runs.length && runs[0].columns.step.length > 50 && runs[0].lanes, {timeout: 120000});
  await pause(20000);
  const shown = await page.evaluate(() => ({columns: runs[0].columns, lanes: runs[0].lanes.measured.length,
    text: Object.fromEntries([...document.querySelectorAll('#figures div')].map(d => [d.firstChild.textContent, d.lastChild.textContent]))}));
  if (page.complaints.length) fail(`the console has ${page.complaints[0]}`);
  const log = logOf(work, 'out');
  shown.columns.step.forEach((step, i) => {
    for (const key in shown.columns)
      if (shown.columns[key][i] !== log[i][key]) fail(`after step ${step} the page has ${key} ${shown.columns[key][i]}, the log ${log[i][key]}`);
  });
  const at = log[parseInt(shown.text.step, 10) - 1];
  if (Math.abs(Number(shown.text.loss) - at.loss) > 5e-5) fail(`the page shows a loss of ${shown.text.loss}, the log has ${at.loss}`);
  if (shown.lanes !== 2) fail(`the page shows the lanes of ${shown.lanes} devices, not 2`);
  const rules = await checkAccess(browser, run.url);
  const time = processorTime(run.process.pid);
  const share = 100 * time.dashboard / time.all;
  if (share > .5)
    fail(`the dashboard's threads take ${time.dashboard} of ${time.all} s of processor time, ${share.toFixed(2)} %, more than 0.5; the run did ${shown.columns.step.length} steps`);
  browser.process().kill('SIGKILL');
  await pause(2000);
  if (run.process.exitCode !== null) fail(`the run ended with its browser: ${run.err}`);
  run.process.kill('SIGINT');
  if (await run.done !== 0) fail(`the run failed: ${run.err}`);
  const steps = logOf(work, 'out').length, weights = /weights (\w+)/.exec(run.out)[1];
  const alone = await startRun(work, [...kLive, `train.steps=${steps}`, 'train.out=alone'], []);
  if (await alone.done !== 0) fail(alone.err);
  if (/weights (\w+)/.exec(alone.out)[1] !== weights) fail(`after ${steps} steps the weights are not those of a run that nobody watched`);
  return {steps: shown.columns.step.length, rules, share};
}

/** Where other machines reach it, a browser gets in by the address that the run prints, keeps the token, and shows the run. */
async function checkOpen(work) {
  const browser = await launch(), run = await startRun(work, [...kLive, 'train.out=open'], ['--dashboard=0.0.0.0:0']);
  const address = new URL(run.url);
  address.hostname = 'localhost';
  const stranger = await browser.newPage();
  const refused = await stranger.goto(address.origin);
  if (refused.status() !== 401) fail(`without the token the page answers ${refused.status()}`);
  const page = await open(browser, address.href);
  await page.waitForFunction(() => runs.length && runs[0].columns.step.length, {timeout: 60000});
  if (page.url() !== address.origin + '/') fail(`the token stays in the address: ${page.url()}`);
  if (page.complaints.length) fail(`the console has ${page.complaints[0]}`);
  await browser.close();
  run.process.kill('SIGINT');
  if (await run.done !== 0) fail(`the run failed: ${run.err}`);
}

async function checkEnded(work) {
  const browser = await launch(), page = await open(browser, `file://${work}/out/run.html`);
  const ended = await page.evaluate(() => document.getElementById('figures').textContent);
  if (!ended.includes(`${logOf(work, 'out').length} of 1000000`)) fail('run.html does not show the last step');
  if (page.complaints.length) fail(`the console has ${page.complaints[0]}`);
  await browser.close();
}

const work = fs.mkdtempSync(path.join(os.tmpdir(), 'cleave_page_'));
try {
  execFileSync(cleave, ['init', 'text'], {cwd: work});
  const browser = await launch();
  const longest = await checkFrames(browser, work);
  await browser.close();
  console.log(`check_page: ${longest.frames} frames, at most ${longest.milliseconds.toFixed(1)} ms of script and layout`);
  const live = await checkLive(work);
  await checkEnded(work);
  await checkOpen(work);
  console.log(`check_page: ${live.steps} steps on the live page as log.jsonl has them; ${kSteps} steps and ${kDevices} devices: ` +
    `${longest.frames} frames, at most ${longest.milliseconds.toFixed(1)} ms of script and layout; axe-core: ${live.rules} rules pass, light and dark, ` +
    `wide and narrow; the dashboard's threads took ${live.share.toFixed(3)} % of the processor time; a killed browser changed nothing; ` +
    'where others reach it, only who has the token gets in');
} catch (error) {
  console.error(`check_page: ${error.message}`);
  stopAll();
  process.exitCode = 1;
} finally {
  fs.rmSync(work, {recursive: true, force: true});
}
