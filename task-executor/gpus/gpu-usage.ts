import { execFile } from 'node:child_process';
import type { Usage } from '../../conf/status/status.ts';
import { MEBIBYTE } from '../../conf/values/units.ts';

type Gpu = Usage['gpus'][number];

const QUERY = ['--query-gpu=index,utilization.gpu,memory.used,memory.total', '--format=csv,noheader,nounits'];
const EVERY_MS = 10_000;
const DEADLINE_MS = 5_000;
const MAX_OUTPUT = 64 * 1024;
/** Pause in ms after a failed query. The pause limits the load on a driver that is not responding. */
const PAUSE_AFTER_FAILURE_MS = 120_000;

/** Parses lines such as `0, 37, 1024, 81559`. Replaces missing values (`[N/A]`) with 0. */
export function parseGpus(text: string): Gpu[] {
  return text
    .split('\n')
    .map((line) => line.split(',').map((field) => Number(field.trim())))
    .filter((fields) => fields.length === 4 && Number.isInteger(fields[0]))
    .map(([index = 0, percent = 0, used = 0, total = 0]) => ({
      index,
      utilization: (percent || 0) / 100,
      memoryUsedBytes: (used || 0) * MEBIBYTE,
      memoryTotalBytes: (total || 0) * MEBIBYTE,
    }));
}

/**
 * Samples GPU usage with nvidia-smi. Queries run in the background, because they can take seconds. Stops querying if nvidia-smi is not
 * installed.
 */
export class GpuUsage {
  #latest: readonly Gpu[] = [];
  #askAgainAt: number;
  #asking = false;
  /** Names of the task's devices, or null if they are unknown. */
  #own: ReadonlySet<string> | null = null;

  /** @param present true if the task has requested GPUs */
  constructor(present: boolean) {
    this.#askAgainAt = present ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }

  /**
   * Limits the reports to the devices with these names.
   * @param names see GpuDevice. nvidia-smi does not report the usage of MIG instances.
   */
  restrictTo(names: readonly string[]): void {
    this.#own = new Set(names);
  }

  sample(now: number): readonly Gpu[] {
    if (!this.#asking && now >= this.#askAgainAt) {
      this.#asking = true;
      execFile('nvidia-smi', QUERY, { timeout: DEADLINE_MS, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT }, (error, stdout) => {
        this.#asking = false;
        this.#latest = error === null ? parseGpus(stdout).filter(({ index }) => this.#own?.has(String(index)) ?? true) : [];
        this.#askAgainAt = now + (error === null ? EVERY_MS : PAUSE_AFTER_FAILURE_MS);
        if ((error as NodeJS.ErrnoException | null)?.code === 'ENOENT') {
          this.#askAgainAt = Number.POSITIVE_INFINITY;
        }
      });
    }
    return this.#latest;
  }
}
