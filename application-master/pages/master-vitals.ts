import type { MasterStatus } from '../../conf/status/status.ts';

/** Interval in ms at which the timer that measures event loop delay fires. */
const BEAT_MS = 500;
const WINDOW_MS = 60_000;
const BEATS = WINDOW_MS / BEAT_MS;

/** Measures how late a timer fired during the last minute, in ms. */
export class Lateness {
  readonly #ring = new Float32Array(BEATS);
  #count = 0;

  /** Records that a timer fired `late` ms after it was due. Also records the beats that were missed during this delay. */
  record(late: number): void {
    for (let rest = Math.max(0, late), beats = 0; beats < BEATS; rest -= BEAT_MS, beats++) {
      this.#ring[this.#count++ % BEATS] = Math.max(0, rest);
      if (rest < BEAT_MS) {
        break;
      }
    }
  }

  percentile(share: number): number {
    const sorted = this.#ring.slice(0, Math.min(this.#count, BEATS)).sort();
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  }
}

export class MasterVitals {
  readonly #node: string;
  readonly #lateness = new Lateness();
  #timer: NodeJS.Timeout | null = null;
  #cpu = process.cpuUsage();
  #cpuAt = performance.now();
  #cpuCores = 0;
  #memoryBytes = process.memoryUsage.rss();

  constructor(node: string) {
    this.#node = node;
    this.#next(performance.now() + BEAT_MS);
  }

  #next(due: number): void {
    this.#timer = setTimeout(
      () => {
        const late = Math.max(0, performance.now() - due);
        this.#lateness.record(late);
        // Skip the missed beats, because `record` has already added them.
        this.#next(due + BEAT_MS * (1 + Math.floor(late / BEAT_MS)));
      },
      Math.max(0, due - performance.now()),
    );
    this.#timer.unref();
  }

  /** Returns the current measurements, updated at most once per second. CPU usage is averaged since the last update. */
  read(): MasterStatus {
    const elapsed = performance.now() - this.#cpuAt;
    if (elapsed >= 1000) {
      const { user, system } = process.cpuUsage(this.#cpu);
      this.#cpuCores = Math.round((user + system) / elapsed) / 1000;
      this.#cpu = process.cpuUsage();
      this.#cpuAt = performance.now();
      this.#memoryBytes = process.memoryUsage.rss();
    }
    return {
      node: this.#node,
      memoryBytes: this.#memoryBytes,
      cpuCores: this.#cpuCores,
      latenessMs: Math.round(this.#lateness.percentile(0.99) * 10) / 10,
    };
  }

  close(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
    }
  }
}
