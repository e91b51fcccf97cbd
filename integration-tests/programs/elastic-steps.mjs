// Counts steps like a training program: starts from the newest checkpoint, and runs until the file `go` exists. The chief writes a
// checkpoint every ten steps. Each start writes `$OUT/<generation>-<rank>.json`.
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

const out = process.env.OUT ?? '.';
const task = JSON.parse(readFileSync(process.env.TONY_TASK_FILE ?? '', 'utf8'));
const checkpoint = path.join(out, 'checkpoint');
const from = existsSync(checkpoint) ? Number(readFileSync(checkpoint, 'utf8')) : 0;

/** @param {string} file @param {string} text */
function writeWhole(file, text) {
  const temporary = `${file}-${task.generation}-${task.taskRank}.part`;
  writeFileSync(temporary, text);
  renameSync(temporary, file);
}

/** @param {object} line */
function report(line) {
  appendFileSync(task.reportFile, `${JSON.stringify(line)}\n`);
}

const { generation, taskRank: rank, index, taskWorldSize: worldSize } = task;
writeWhole(path.join(out, `${generation}-${rank}.json`), JSON.stringify({ pid: process.pid, index, worldSize, from }));
for (let step = from + 1; !existsSync(path.join(out, 'go')); step++) {
  await setTimeout(50);
  if (rank !== 0) {
    continue;
  }
  report({ type: 'progress', step });
  if (step % 10 !== 0) {
    continue;
  }
  writeWhole(checkpoint, String(step));
  report({ type: 'checkpoint', step });
}
