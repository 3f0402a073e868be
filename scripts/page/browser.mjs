// What the scripts about the page of a run share: a browser, the page itself, and runs to show on it.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const require = createRequire(path.join(root, 'build/node/package.json'));
export const cleave = path.resolve(process.env.CLEAVE || path.join(root, 'build/release/cleave'));

export function fail(sentence) {
  throw new Error(sentence);
}

const started = [];

/** Ends what a check that failed has left running: a run would otherwise keep the script from ending. */
export function stopAll() {
  for (const child of started) child.kill('SIGKILL');
}

export const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

export async function launch() {
  const puppeteer = require('puppeteer-core');
  const browser = await (puppeteer.default || puppeteer).launch({executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true,
    acceptInsecureCerts: true,  // a dashboard signs its own
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb']});
  started.push(browser.process());
  return browser;
}

/** A tab of that size; what the console complains of ends the check. */
export async function open(browser, url, {width = 1280, height = 900, dark = false} = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.on('console', message => { if (['error', 'warn'].includes(message.type())) page.complaints.push(message.text()); });
  page.on('pageerror', error => page.complaints.push(error.message));
  await page.setViewport({width, height});
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]);
  if (url) await page.goto(url);
  return page;
}

/** The page as the program puts it together (run_page.cpp). */
export function pageOf(data, title = 'cleave: long') {
  const folder = path.join(root, 'apps/cleave/watch/page'), read = name => fs.readFileSync(path.join(folder, name), 'utf8');
  const parts = {title, style: read('watch.css'), script: read('charts.js') + read('lanes.js') + read('watch.js'),
    data: JSON.stringify(data).replaceAll('<', '\\u003c')};
  return read('watch.html').replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

/** Starts `cleave train run.toml` with a dashboard, in a directory that `cleave init text` has filled. */
export async function startRun(directory, settings, flags = ['--dashboard=0']) {
  const words = ['train', 'run.toml', ...flags, ...settings.flatMap(setting => ['--set', setting])];
  const env = {...globalThis.process.env, XDG_STATE_HOME: path.join(directory, 'state')};
  const process = spawn(cleave, words, {cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe']});
  started.push(process);
  const run = {process, out: '', err: '', done: new Promise(end => process.on('close', end))};
  process.stdout.on('data', text => { run.out += text; });
  process.stderr.on('data', text => { run.err += text; });
  if (!flags.some(flag => flag.startsWith('--dashboard='))) return run;
  for (let i = 0; i < 600; ++i) {
    const found = /dashboard: (http\S+)/.exec(run.out + run.err);
    if (found) { run.url = found[1]; return run; }
    if (process.exitCode !== null) break;
    await pause(100);
  }
  fail(`the run shows no dashboard: ${run.err}`);
}
