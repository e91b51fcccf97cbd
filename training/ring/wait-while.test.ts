import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { waitWhile } from './sync-ring.ts';

/** Starts a thread that sends ten notifications without a change, and then changes the cell from 1 to 2. */
function startNotifier(cells: Int32Array): void {
  const code = `
    const { workerData } = require('node:worker_threads');
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (let times = 0; times < 10; ) {
      times += Atomics.notify(workerData, 0);
      Atomics.wait(pause, 0, 0, 1);
    }
    Atomics.store(workerData, 0, 2);
    Atomics.notify(workerData, 0);
  `;
  const worker = new Worker(code, { eval: true, workerData: cells });
  onTestFinished(() => worker.terminate().then(() => undefined));
}

test('waits until the cell changes, whatever notifications arrive before', () => {
  const cells = new Int32Array(new SharedArrayBuffer(4));
  cells[0] = 1;
  startNotifier(cells);
  expect(waitWhile(cells, 0, 1, 30_000)).toBe(true);
  expect(cells[0]).toBe(2);
});

test('returns immediately if the cell has already changed, and false after the time limit', () => {
  const cells = new Int32Array(new SharedArrayBuffer(4));
  expect(waitWhile(cells, 0, 1, 0)).toBe(true);
  expect(waitWhile(cells, 0, 0, 10)).toBe(false);
});
