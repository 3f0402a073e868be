// Run by scripts/screenshots.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {cleave, launch, open, pause, root, startRun} from './browser.mjs';

const kShots = [{name: 'dashboard', width: 1280, height: 1180}, {name: 'dashboard-dark', width: 1280, height: 1180, dark: true}];
const kRun = ['train.steps=400', 'train.batch=8', 'train.sequence=64', 'train.eval_every=40', 'train.checkpoint_every=100',
  'parallel.pipeline=4', 'devices.memory=256MiB'];

const work = fs.mkdtempSync(path.join(os.tmpdir(), 'cleave_page_'));
const out = process.argv[2] || path.join(root, 'docs/pictures');
fs.mkdirSync(out, {recursive: true});
try {
  execFileSync(cleave, ['init', 'text'], {cwd: work});
  const run = await startRun(work, kRun), browser = await launch();
  for (const shot of kShots) {
    const page = await open(browser, run.url, shot);
    await page.waitForFunction(() => runs.length && runs[0].columns.step.length >= 120 && runs[0].lanes && !toDraw.size, {timeout: 300000});
    await pause(1500);
    await page.screenshot({path: path.join(out, `${shot.name}.png`)});
    await page.close();
    console.log(path.join(out, `${shot.name}.png`));
  }
  await browser.close();
  run.process.kill('SIGINT');
  await run.done;
} finally {
  fs.rmSync(work, {recursive: true, force: true});
}
