import { messageOf, TonyError } from '../../platform/errors.ts';
import { joinUri } from '../../storage/uri.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { outputPlace } from '../cluster/output-place.ts';
import { csvLine } from '../inference/predict-format.ts';
import { beforeProgramEnds } from '../process/program-end.ts';
import { NO_SUMMARIES, type Summaries } from '../summary/summary.ts';
import type { Configuration } from './sweep-space.ts';
import { decodeTrial, encodeTrial, type Goal, printed, ranked, type TrialResult, tableOf } from './sweep-table.ts';
import { openTrialSummaries } from './trial-summaries.ts';

/*
 * The `sweep` output folder:
 *
 *   _SWEEP             JSON: the configurations; the first task writes the file, and the other tasks verify it
 *   trial-00003.json   a trial's result; written only once
 *   trial-00003/       files that the trial itself writes
 *   results.csv        all trials, best first; written after all trials have finished
 *   results.json
 */
const DESCRIPTION = '_SWEEP';
const TRIAL_FILE = /^trial-(\d+)\.json$/;
const CONCURRENT_READS = 16;

export interface SweepOptions {
  /** The name of the metric by which trials are compared. */
  readonly metric: string;
  readonly goal: Goal;
  /** The results folder: a URI, or a path relative to the job's output folder. Default: `sweep`. */
  readonly output?: string;
  /**
   * What to do if a trial throws an error. With `fail`, the default, this task fails and the job restarts it. With `record`, the sweep
   * stores the error in the table and continues.
   */
  readonly onError?: 'fail' | 'record';
  /** A version string for the trial function. The sweep throws OUTPUT_MISMATCH if the folder contains trials from another version. */
  readonly version?: string;
}

export interface Trial {
  readonly index: number;
  /** The name of the trial's summary run and of its row in the table, for example `trial-00003`. */
  readonly name: string;
  /** The URI of a folder for the trial's files. */
  readonly outputDir: string;
  /** Writes intermediate metrics as summaries. */
  report(values: Readonly<Record<string, number>>, step: number): void;
  /** The trial's own TensorBoard run, which already contains its hyperparameters. */
  readonly summaries: Summaries;
}

export interface SweepReport<C extends Configuration> {
  /** The URI of the results folder. */
  readonly output: string;
  /** The trials that this task has computed during this run. */
  readonly computed: readonly TrialResult<C>[];
  /** All trials, best first, on the task that finishes last, or null on all other tasks. */
  readonly results: readonly TrialResult<C>[] | null;
}

/**
 * Evaluates configurations independently on all tasks of a role. Task i runs configurations i, i+N, ..., where N is the number of tasks.
 * The sweep stores each result immediately, so a restarted task, or another job with the same output, continues with the unfinished trials.
 * The task that finishes last writes `results.csv` and `results.json`, and prints the table. Each trial is a TensorBoard run with a row in
 * the HParams tab. The role's tasks must not have ranks (`ranked: false` in job.yaml), because each task trains its own models, with
 * `model.fit`.
 * @param configurations the same list in each task: from `grid` or `randomSearch`, or an array.
 * @throws TonyError OUTPUT_MISMATCH if the folder contains trials for other configurations; TRIAL_FAILED; USAGE if the tasks have ranks.
 */
export async function sweep<C extends Configuration>(
  cluster: Cluster,
  configurations: readonly C[],
  trial: (configuration: C, trial: Trial) => Promise<Readonly<Record<string, number>>>,
  options: SweepOptions,
): Promise<SweepReport<C>> {
  if (cluster.worldSize > 1) {
    throw new TonyError('USAGE', `the tasks of role ${cluster.role} train together, so they cannot run separate trials`, {
      hint: 'Set ranked: false for the role in job.yaml.',
    });
  }
  const output = outputPlace(cluster.outputDir, options.output ?? 'sweep');
  const results = await SweepOutput.open<C>(cluster, output, configurations, options.version ?? '');
  const { index: first, count } = cluster.position;
  const computed: TrialResult<C>[] = [];
  const known = await results.done();
  for (let index = first % count; index < configurations.length; index += count) {
    if (known.has(index)) {
      continue;
    }
    const result = await runTrial(cluster, { index, configuration: configurations[index] as C, output, options }, trial);
    await results.add(result);
    computed.push(result);
    process.stdout.write(`${result.name} ${JSON.stringify(result.configuration)}: ${summaryOf(result)}\n`);
    const value = result.metrics[options.metric];
    cluster.metrics(computed.length, {
      'sweep/trials': computed.length,
      ...(value !== undefined && { [`sweep/${options.metric}`]: value }),
    });
  }
  const all = await results.all();
  if (all === null) {
    return { output, computed, results: null };
  }
  const best = ranked(all, options.metric, options.goal);
  if (await results.finish(best, options)) {
    process.stdout.write(`${printed(tableOf(best))}\n`);
  }
  return { output, computed, results: best };
}

function summaryOf({ metrics, error, seconds }: TrialResult): string {
  const values = Object.entries(metrics).map(([name, value]) => `${name} ${Number(value.toPrecision(5))}`);
  return `${error ?? values.join(', ')} (${seconds.toFixed(1)} s)`;
}

interface TrialPlan<C> {
  readonly index: number;
  readonly configuration: C;
  readonly output: string;
  readonly options: SweepOptions;
}

async function runTrial<C extends Configuration>(
  cluster: Cluster,
  { index, configuration, output, options }: TrialPlan<C>,
  trial: (configuration: C, trial: Trial) => Promise<Readonly<Record<string, number>>>,
): Promise<TrialResult<C>> {
  const name = nameOf(index);
  const started = performance.now();
  const run = openRun(cluster, name, configuration, options.metric);
  let largestStep = 0;
  const context: Trial = {
    index,
    name,
    outputDir: joinUri(output, name),
    summaries: run.summaries,
    report: (values, step) => {
      largestStep = Math.max(largestStep, step);
      run.summaries.scalars(values, step);
    },
  };
  let metrics: Readonly<Record<string, number>> = {};
  let error: string | null = null;
  try {
    metrics = await trial(configuration, context);
    check(metrics, name, options.metric);
    run.summaries.scalars(metrics, largestStep + 1);
  } catch (thrown) {
    if (options.onError !== 'record') {
      await run.end(false);
      throw thrown instanceof TonyError ? thrown : failed(name, configuration, thrown);
    }
    error = messageOf(thrown);
    metrics = {};
  }
  await run.end(error === null);
  const seconds = (performance.now() - started) / 1000;
  return { index, name, configuration, metrics: { ...metrics }, seconds, task: `${cluster.role}:${cluster.index}`, error };
}

function nameOf(index: number): string {
  return `trial-${String(index).padStart(5, '0')}`;
}

function failed(name: string, configuration: Configuration, cause: unknown): TonyError {
  return new TonyError('TRIAL_FAILED', `${name} ${JSON.stringify(configuration)} failed: ${messageOf(cause)}`, { cause });
}

function check(metrics: Readonly<Record<string, number>>, name: string, metric: string): void {
  const isMap = typeof metrics === 'object' && metrics !== null;
  const odd = isMap ? Object.entries(metrics).find(([, value]) => typeof value !== 'number') : undefined;
  if (odd !== undefined) {
    throw new TonyError('TRIAL_FAILED', `${name} returned a ${typeof odd[1]} as metric ${odd[0]}; metrics must be numbers`);
  }
  if (!isMap || metrics[metric] === undefined) {
    const given = isMap ? Object.keys(metrics).join(', ') || 'none' : typeof metrics;
    throw new TonyError(
      'TRIAL_FAILED',
      `${name} returned no metric ${metric}, which the sweep uses to compare trials (it returned: ${given})`,
      {
        hint: 'Return it from the trial: { accuracy: 0.98 }.',
      },
    );
  }
}

interface Run {
  readonly summaries: Summaries;
  end(succeeded: boolean): Promise<void>;
}

function openRun(cluster: Cluster, name: string, configuration: Configuration, metric: string): Run {
  const { summaryDir, storage } = cluster;
  if (summaryDir === null) {
    return { summaries: NO_SUMMARIES, end: async () => {} };
  }
  const onTrouble = (message: string) => process.stderr.write(`tony-ts: ${name}: ${message}\n`);
  const writer = openTrialSummaries({ storage, dir: joinUri(summaryDir, name), trial: name, onTrouble }, configuration, metric);
  const end = async (succeeded: boolean) => {
    writer.endSession(succeeded);
    await writer.finish();
  };
  const release = beforeProgramEnds({ isDue: () => !writer.isEmpty, finish: () => end(false), finishNow: () => writer.finishNow() });
  return {
    summaries: writer,
    end: async (succeeded) => {
      release();
      await end(succeeded);
    },
  };
}

/**
 * The stored results. A result appears only when it is complete. If several tasks compute the same trial, the first one that finishes
 * stores the result.
 */
class SweepOutput<C extends Configuration> {
  readonly #cluster: Cluster;
  readonly #uri: string;
  readonly #trials: number;

  private constructor(cluster: Cluster, uri: string, trials: number) {
    this.#cluster = cluster;
    this.#uri = uri;
    this.#trials = trials;
  }

  static async open<C extends Configuration>(
    cluster: Cluster,
    uri: string,
    configurations: readonly C[],
    version: string,
  ): Promise<SweepOutput<C>> {
    const { storage } = cluster;
    const file = joinUri(uri, DESCRIPTION);
    const bytes = Buffer.from(`${JSON.stringify({ version: 1, of: version, configurations })}\n`);
    if (!(await storage.write(file, bytes, { ifAbsent: true })) && !(await storage.read(file)).equals(bytes)) {
      throw new TonyError('OUTPUT_MISMATCH', `${uri} contains trials of other configurations`);
    }
    return new SweepOutput<C>(cluster, uri, configurations.length);
  }

  async done(): Promise<Set<number>> {
    const names = (await this.#cluster.storage.list(this.#uri)).map(({ name }) => TRIAL_FILE.exec(name)?.[1]);
    return new Set(names.filter((number) => number !== undefined).map(Number));
  }

  async add(result: TrialResult<C>): Promise<void> {
    const uri = joinUri(this.#uri, `${result.name}.json`);
    await this.#cluster.storage.write(uri, Buffer.from(`${encodeTrial(result)}\n`), { ifAbsent: true });
  }

  /** Returns all results, or null if some are missing. */
  async all(): Promise<TrialResult<C>[] | null> {
    if ((await this.done()).size < this.#trials) {
      return null;
    }
    const results: TrialResult<C>[] = [];
    for (let first = 0; first < this.#trials; first += CONCURRENT_READS) {
      const some = Array.from({ length: Math.min(CONCURRENT_READS, this.#trials - first) }, (_, at) => nameOf(first + at));
      const texts = await Promise.all(some.map((name) => this.#cluster.storage.read(joinUri(this.#uri, `${name}.json`))));
      results.push(...texts.map((text) => decodeTrial<C>(text.toString())));
    }
    return results;
  }

  /** Writes the tables. Returns false if another task has already written them. */
  async finish(best: readonly TrialResult<C>[], { metric, goal }: SweepOptions): Promise<boolean> {
    const { storage } = this.#cluster;
    await storage.write(joinUri(this.#uri, 'results.csv'), Buffer.from(tableOf(best).map(csvLine).join('')), { ifAbsent: true });
    const trials = best.map((trial) => JSON.parse(encodeTrial(trial)) as unknown);
    const bytes = Buffer.from(`${JSON.stringify({ version: 1, metric, goal, trials }, null, 1)}\n`);
    return await storage.write(joinUri(this.#uri, 'results.json'), bytes, { ifAbsent: true });
  }
}
