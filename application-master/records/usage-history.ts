import { gpuUtilization, type TaskStatus, type TaskUsageSample, type UsageSample } from '../../conf/status/status.ts';
import type { UsagePage } from '../../web/job-view.ts';

/** Maximum number of samples, and maximum number of task entries in all samples together. */
const MAXIMUM_SAMPLES = 1_000;
const MAXIMUM_TASK_SAMPLES = 20_000;
/** Minimum number of samples to keep. A sample contains at most `MAXIMUM_TASKS` tasks. */
const FEWEST_SAMPLES = 20;
const MAXIMUM_TASKS = MAXIMUM_TASK_SAMPLES / FEWEST_SAMPLES;

/**
 * The tasks' resource usage since the job started. When there are too many samples, pairs of samples are merged and the sampling interval
 * doubles. The history thus always covers the whole job.
 */
export class UsageHistory {
  #samples: UsageSample[] = [];
  #taskSamples = 0;
  #gathered = 0;
  #gather = 1;

  get samples(): readonly UsageSample[] {
    return this.#samples;
  }

  add(sample: UsageSample): void {
    if (sample.tasks.length === 0) {
      return;
    }
    const last = this.#samples.at(-1);
    if (last !== undefined && this.#gathered < this.#gather) {
      this.#gathered++;
      this.#replaceLast(merged(last, sample, 1 / this.#gathered));
    } else {
      this.#samples.push(sample);
      this.#taskSamples += sample.tasks.length;
      this.#gathered = 1;
    }
    while (this.#isFull()) {
      this.#thin();
    }
  }

  prepend(samples: readonly UsageSample[]): void {
    this.#samples = [...samples, ...this.#samples];
    this.#recount();
    while (this.#isFull()) {
      this.#thin();
    }
  }

  page(after: number): UsagePage {
    const from = this.#samples.findIndex(({ at }) => at > after);
    const samples = from < 0 ? [] : this.#samples.slice(from);
    return { samples, next: samples.at(-1)?.at ?? after };
  }

  #isFull(): boolean {
    if (this.#samples.length <= FEWEST_SAMPLES) {
      return false;
    }
    return this.#samples.length > MAXIMUM_SAMPLES || this.#taskSamples > MAXIMUM_TASK_SAMPLES;
  }

  #thin(): void {
    const pairs: UsageSample[] = [];
    for (let at = 0; at < this.#samples.length; at += 2) {
      const [one, two] = [this.#samples[at] as UsageSample, this.#samples[at + 1]];
      pairs.push(two === undefined ? one : merged(one, two, 1 / 2));
    }
    // The newest sample has no partner yet and still collects values.
    if (this.#samples.length % 2 === 0) {
      this.#gathered += this.#gather;
    }
    this.#samples = pairs;
    this.#gather *= 2;
    this.#recount();
  }

  #replaceLast(sample: UsageSample): void {
    this.#taskSamples += sample.tasks.length - (this.#samples.at(-1)?.tasks.length ?? 0);
    this.#samples[this.#samples.length - 1] = sample;
  }

  #recount(): void {
    this.#taskSamples = this.#samples.reduce((sum, { tasks }) => sum + tasks.length, 0);
  }
}

export function sampleOf(tasks: readonly TaskStatus[], at: number): UsageSample {
  return {
    at,
    tasks: tasks.slice(0, MAXIMUM_TASKS).flatMap(({ role, index, step, usage }): TaskUsageSample[] => {
      if (usage === null) {
        return [];
      }
      const { memoryBytes, gpus } = usage;
      const busy = gpuUtilization(usage);
      return [
        {
          task: `${role}:${index}`,
          step,
          memoryBytes,
          cpuCores: rounded(usage.cpuCores),
          gpuUtilization: busy === null ? null : rounded(busy),
          gpuMemoryBytes: busy === null ? null : gpus.reduce((sum, gpu) => sum + gpu.memoryUsedBytes, 0),
        },
      ];
    }),
  };
}

/**
 * Merges two successive samples. Averages the load, uses the higher memory usage, and copies all other values from the later sample.
 * `share` is the weight of the later sample.
 */
function merged(earlier: UsageSample, later: UsageSample, share: number): UsageSample {
  const before = new Map(earlier.tasks.map((task) => [task.task, task]));
  const tasks = later.tasks.map((task): TaskUsageSample => {
    const old = before.get(task.task);
    before.delete(task.task);
    if (old === undefined) {
      return task;
    }
    return {
      task: task.task,
      step: task.step,
      memoryBytes: Math.max(old.memoryBytes, task.memoryBytes),
      cpuCores: mean(old.cpuCores, task.cpuCores, share) ?? 0,
      gpuUtilization: mean(old.gpuUtilization, task.gpuUtilization, share),
      gpuMemoryBytes:
        old.gpuMemoryBytes === null || task.gpuMemoryBytes === null
          ? (task.gpuMemoryBytes ?? old.gpuMemoryBytes)
          : Math.max(old.gpuMemoryBytes, task.gpuMemoryBytes),
    };
  });
  return { at: later.at, tasks: [...tasks, ...before.values()] };
}

function mean(old: number | null, fresh: number | null, share: number): number | null {
  return old === null || fresh === null ? (fresh ?? old) : rounded(old + (fresh - old) * share);
}

/** Rounds to three decimal places, because further digits would only take up space. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
