import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { LineWriter } from './line-writer.ts';
import type { ProcessPlan } from './task-folder.ts';

/*
 * `process-launcher.mjs FILE` runs a task's processes. FILE contains a ProcessPlan. The executor runs the launcher as the task's program,
 * so the executor kills all processes when the launcher exits. If processes fail, the launcher exits with the exit code or signal of the
 * first one that failed.
 */

/** Maximum time in ms to wait for a failed process's remaining output. Its child processes may keep the pipes open. */
const DRAIN_MS = 1_000;

const { command, processes } = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as ProcessPlan;
let running = processes.length;
let failed = false;

// Ignore the signal, because each process also receives it and may store a checkpoint before it exits.
process.on('SIGTERM', () => {});

for (const { prefix, environment } of processes) {
  const child = spawn('/bin/bash', ['-c', command], { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
  const writers = [new LineWriter(child.stdout, 1, prefix), new LineWriter(child.stderr, 2, prefix)];
  child.once('error', (error) => end(127, null, `${prefix}could not be started: ${error.message}`));
  child.once('exit', async (code, signal) => {
    await Promise.race([Promise.all(writers.map(({ ended }) => ended)), new Promise((resolve) => setTimeout(resolve, DRAIN_MS))]);
    for (const writer of writers) {
      writer.flush();
    }
    running -= 1;
    if (code !== 0) {
      end(code ?? 1, signal, `${prefix}failed with ${signal ?? `exit code ${code}`}; ending the task's other processes`);
    } else if (running === 0) {
      process.exit(0);
    }
  });
}

function end(code: number, signal: NodeJS.Signals | null, reason: string): void {
  if (failed) {
    return;
  }
  failed = true;
  console.error(reason);
  if (signal !== null) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  }
  // Exit here if the process was not killed by a signal, or if sending the same signal to the launcher does not kill the launcher.
  setTimeout(() => process.exit(code), signal === null ? 0 : DRAIN_MS);
}
