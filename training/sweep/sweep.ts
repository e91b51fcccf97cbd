import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { NO_SUMMARIES, type Summaries } from '../../contract/summary/summary.ts';
import { openTrialSummaries } from '../../contract/summary/trial-summaries.ts';
import { checkOptionValues, isOneOf, isText, isTextNotEmpty, type OptionRules } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { encodeJsonValue, parseJson } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { claimSplits } from '../data/reading/claimed-splits.ts';
import { checkReport } from '../process/check-report.ts';
import { outputPlace } from '../process/output-place.ts';
import { beforeProgramEnds } from '../process/program-end.ts';
import type { Configuration } from './sweep-space.ts';
import {
  bestNotice,
  bestOf,
  csvOf,
  decodeTrial,
  encodeTrial,
  printed,
  ranked,
  type SweepMode,
  summaryOf,
  type TrialResult,
  tableOf,
  titleOf,
} from './sweep-table.ts';

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
const CONCURRENT_READS = 16;

/** The task that runs the trials: see Cluster. */
export interface SweepTask {
  readonly role: string;
  readonly index: number;
  readonly worldSize: number | null;
  readonly outputUri: string | null;
  readonly summaryUri: string | null;
  readonly storage: Storage;
  report(values: Readonly<Record<string, number>>, options: { readonly step: number }): void;
  notice(text: string, options: { readonly about: string }): void;
}

export interface SweepOptions {
  /** The name of the metric by which trials are compared. */
  readonly metric: string;
  readonly mode: SweepMode;
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
  readonly outputUri: string;
  /** Writes intermediate metrics as summaries. @throws TonyError USAGE if a value is not a number, or the step is not a whole number. */
  report(values: Readonly<Record<string, number>>, options: { readonly step: number }): void;
  /** The trial's own TensorBoard run, which already contains its hyperparameters. */
  readonly summaries: Summaries;
}

export interface SweepReport<C extends Configuration> {
  /** The URI of the results folder. */
  readonly output: string;
  /** The trials that this task has computed during this run. */
  readonly computed: readonly TrialResult<C>[];
  /** All trials, best first. Every task gets the same list. */
  readonly results: readonly TrialResult<C>[];
}

/** Evaluates configurations independently on all tasks of a role. See Cluster.sweep. */
export async function sweep<C extends Configuration>(
  cluster: SweepTask,
  configurations: readonly C[],
  trial: (configuration: C, trial: Trial) => Promise<Readonly<Record<string, number>>>,
  options: SweepOptions,
): Promise<SweepReport<C>> {
  checkArguments(cluster, configurations, options);
  const output = outputPlace(cluster.outputUri, options.output ?? 'sweep');
  const results = await SweepOutput.open<C>(cluster, output, configurations, options.version ?? '');
  const computed: TrialResult<C>[] = [];
  for await (const index of claimSplits(claimed(output, configurations.length), new AbortController().signal)) {
    // A task may have failed after storing this trial's result, but before reporting the trial as finished.
    if (await results.has(index)) {
      continue;
    }
    const result = await runTrial(cluster, { index, configuration: configurations[index] as C, output, options }, trial);
    await results.add(result);
    computed.push(result);
    process.stdout.write(`${summaryOf(result)}\n`);
    reportBest(cluster, await results.read(), options);
  }
  const all = ranked(await results.read(), options.metric, options.mode);
  reportBest(cluster, all, options);
  if (cluster.index === 0) {
    await results.finish(all, options);
    process.stdout.write(`${printed(tableOf(all))}\n`);
    const notice = bestNotice(all, options.metric, options.mode);
    if (notice !== null) {
      cluster.notice(notice, { about: 'sweep' });
    }
  }
  return { output, computed, results: all };
}

/** The trials as items that the ApplicationMaster assigns to tasks. Two sweeps are distinguished by their output folders. */
function claimed(output: string, trials: number): { readonly fingerprint: string; readonly splits: readonly string[] } {
  const splits = Array.from({ length: trials }, (_, index) => joinUri(output, `${nameOf(index)}.json`));
  return { fingerprint: createHash('sha256').update(JSON.stringify(splits)).digest('hex'), splits };
}

function reportBest(cluster: SweepTask, trials: readonly TrialResult[], { metric, mode }: SweepOptions): void {
  const best = bestOf(trials, metric, mode);
  const values = { 'sweep/trials': trials.length, ...(best !== null && { 'sweep/best': best.value }) };
  cluster.report(values, { step: trials.length });
}

const OPTIONS: OptionRules<SweepOptions> = {
  metric: isTextNotEmpty,
  mode: isOneOf('max', 'min'),
  output: isTextNotEmpty,
  onError: isOneOf('fail', 'record'),
  version: isText,
};

function checkArguments(cluster: SweepTask, configurations: readonly Configuration[], options: SweepOptions): void {
  // An absent metric or mode is invalid, too.
  checkOptionValues<SweepOptions>(
    'sweep',
    { ...options, metric: options?.metric ?? '', mode: options?.mode ?? ('' as SweepMode) },
    OPTIONS,
  );
  if ((cluster.worldSize ?? 1) > 1) {
    throw new TonyError('USAGE', `the tasks of role ${cluster.role} train together, so they cannot run separate trials`, {
      hint: 'Set kind: independent for the role in job.yaml.',
    });
  }
  if (!Array.isArray(configurations) || configurations.some((each) => typeof each !== 'object' || each === null)) {
    throw new TonyError('USAGE', 'the configurations of sweep must be a list of objects, for example from grid(...)');
  }
  if (configurations.length === 0) {
    throw new TonyError('USAGE', 'the sweep has no configurations');
  }
  for (const [index, configuration] of configurations.entries()) {
    for (const [name, value] of Object.entries(configuration)) {
      encodeJsonValue(value, `the value of ${name} in configuration ${index}`, 'USAGE');
    }
  }
}

interface TrialPlan<C> {
  readonly index: number;
  readonly configuration: C;
  readonly output: string;
  readonly options: SweepOptions;
}

async function runTrial<C extends Configuration>(
  cluster: SweepTask,
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
    outputUri: joinUri(output, name),
    summaries: run.summaries,
    report: (values, options) => {
      checkReport('trial.report', values, options);
      const { step } = options;
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
  return new TonyError('TRIAL_FAILED', `${titleOf({ name, configuration })} failed: ${messageOf(cause)}`, { cause });
}

function check(metrics: Readonly<Record<string, number>>, name: string, metric: string): void {
  const isMap = typeof metrics === 'object' && metrics !== null;
  const odd = isMap ? Object.entries(metrics).find(([, value]) => typeof value !== 'number') : undefined;
  if (odd !== undefined) {
    throw new TonyError('TRIAL_FAILED', `${name} returned a ${typeof odd[1]} as metric ${odd[0]}; metrics must be numbers`);
  }
  if (!isMap || !Object.hasOwn(metrics, metric)) {
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

function openRun(cluster: SweepTask, name: string, configuration: Configuration, metric: string): Run {
  const { summaryUri, storage } = cluster;
  if (summaryUri === null) {
    return { summaries: NO_SUMMARIES, end: async () => {} };
  }
  const onTrouble = (message: string) => process.stderr.write(`tony-ts: ${name}: ${message}\n`);
  const writer = openTrialSummaries({ storage, dir: joinUri(summaryUri, name), trial: name, onTrouble }, configuration, metric);
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
  readonly #storage: Storage;
  readonly #uri: string;
  readonly #trials: number;
  readonly #read = new Map<number, TrialResult<C>>();

  private constructor(storage: Storage, uri: string, trials: number) {
    this.#storage = storage;
    this.#uri = uri;
    this.#trials = trials;
  }

  static async open<C extends Configuration>(
    { storage }: SweepTask,
    uri: string,
    configurations: readonly C[],
    version: string,
  ): Promise<SweepOutput<C>> {
    const file = joinUri(uri, DESCRIPTION);
    const text = JSON.stringify({ version: 1, of: version, configurations });
    if (!(await storage.write(file, Buffer.from(`${text}\n`), { ifAbsent: true }))) {
      const stored = parseJson((await storage.read(file)).toString());
      if (!isDeepStrictEqual(stored, parseJson(text))) {
        throw new TonyError('OUTPUT_MISMATCH', `${uri} contains trials of other configurations`, {
          hint: 'Choose another output, or remove the folder.',
        });
      }
    }
    return new SweepOutput<C>(storage, uri, configurations.length);
  }

  async has(index: number): Promise<boolean> {
    return (await this.#storage.stat(this.#place(index))) !== null;
  }

  async add(result: TrialResult<C>): Promise<void> {
    await this.#storage.write(this.#place(result.index), Buffer.from(`${encodeTrial(result)}\n`), { ifAbsent: true });
  }

  #place(index: number): string {
    return joinUri(this.#uri, `${nameOf(index)}.json`);
  }

  /** Returns the results of all finished trials. Reads each file only once, because a result never changes. */
  async read(): Promise<TrialResult<C>[]> {
    const names = new Set((await this.#storage.list(this.#uri)).map(({ name }) => name));
    const missing = Array.from({ length: this.#trials }, (_, index) => index).filter(
      (index) => !this.#read.has(index) && names.has(`${nameOf(index)}.json`),
    );
    for (let first = 0; first < missing.length; first += CONCURRENT_READS) {
      const some = missing.slice(first, first + CONCURRENT_READS);
      const texts = await Promise.all(some.map((index) => this.#storage.read(this.#place(index))));
      for (const [at, index] of some.entries()) {
        this.#read.set(index, decodeTrial<C>((texts[at] as Buffer).toString()));
      }
    }
    return [...this.#read.values()];
  }

  async finish(all: readonly TrialResult<C>[], { metric, mode }: SweepOptions): Promise<void> {
    await this.#storage.write(joinUri(this.#uri, 'results.csv'), Buffer.from(csvOf(tableOf(all))));
    const trials = all.map((trial) => JSON.parse(encodeTrial(trial)) as unknown);
    const bytes = Buffer.from(`${JSON.stringify({ version: 1, metric, mode, trials }, null, 1)}\n`);
    await this.#storage.write(joinUri(this.#uri, 'results.json'), bytes);
  }
}
