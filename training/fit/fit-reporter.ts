import type * as tfjs from '@tensorflow/tfjs';
import type { Report } from '../../contract/process/task-context.ts';
import type { SummaryWriter } from '../../contract/summary/summary.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import { nativeKernelsOf } from '../backend/native/native-kernels.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import type { StepValues } from '../model/step-part.ts';
import { nameOfOptimizer } from '../optimizer/optimizer-members.ts';
import type { OnNotice } from '../process/notices.ts';
import type { ProfileWindow, StepProfile } from '../strategy/profile.ts';
import type { TrainingStrategy } from '../strategy/strategy.ts';
import { logsOf } from './callbacks.ts';
import type { FitPlan } from './fit-options.ts';
import type { FitStep } from './fit-steps.ts';
import type { PhaseProgress } from './phase-progress.ts';

export interface FitReporterParts {
  readonly tf: typeof tfjs;
  readonly model: CompiledModel;
  readonly plan: FitPlan;
  readonly strategy: TrainingStrategy;
  readonly progress: PhaseProgress;
  readonly profile: StepProfile;
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
  readonly onNotice: OnNotice;
  /** Returns the step number expected at the end of this phase, or undefined while it is unknown. */
  readonly expectedSteps: () => number | undefined;
  /** Returns why steps run separate operations, or null if they are compiled. */
  readonly reasonNotCompiled: () => string | null;
}

const PROGRESS_MS = 1000;
const MOST_NAMES = 5;

/** Reports the progress of `fit` to the job and TensorBoard, and prints it on the terminal. */
export class FitReporter {
  readonly #parts: FitReporterParts;
  readonly #reported: ProfileWindow;
  readonly #summarised: ProfileWindow;
  #reportedAt = 0;
  /** The total number of examples that the ranks have used since the last report. */
  #used = 0;
  #last: StepValues | null = null;
  /** What has been reported about slow steps. A reason can arise in any epoch. */
  readonly #slowSteps = new Set<string>();

  constructor(parts: FitReporterParts) {
    this.#parts = parts;
    this.#reported = parts.profile.window();
    this.#summarised = parts.profile.window();
  }

  /**
   * Writes the hyperparameters and the model as summaries. Unless training has resumed from a checkpoint, also writes the initial weights.
   */
  describe(): void {
    const { model, plan, strategy, progress, summaries } = this.#parts;
    const { batchSize, epochs, accumulate } = plan;
    const { learningRate } = model.optimizer.getConfig();
    summaries?.addHparams({
      optimizer: nameOfOptimizer(model.optimizer),
      ...(typeof learningRate === 'number' ? { learning_rate: learningRate } : {}),
      ...(batchSize === null ? {} : { batch_size: batchSize }),
      ...(accumulate === 1 ? {} : { accumulate }),
      world_size: strategy.worldSize,
      ...(Number.isFinite(epochs) ? { epochs } : {}),
      seed: progress.seed,
    });
    summaries?.graph(model.model);
    if (progress.step === 0) {
      this.#addHistograms();
    }
  }

  start(): void {
    this.#reportedAt = Date.now();
  }

  /**
   * Writes a step's summaries.
   * @param read reads the step's values from the backend.
   * @param isLast whether training ends with this step.
   */
  afterStep(step: FitStep, read: () => readonly number[], isLast: boolean): void {
    const { model, plan, progress, summaries } = this.#parts;
    if (this.#last === null) {
      this.#reportUntrained();
    }
    if (summaries !== null && (progress.step % plan.summaryEverySteps === 0 || progress.step === 1 || isLast)) {
      summaries.scalars({ ...logsOf(model.metricNames, read()), ...this.#summarised.take() }, progress.globalStep);
    }
    if (step.endsEpoch || isLast) {
      // Histograms are written during an epoch's last step, because a process that resumes from that step's checkpoint skips the code after
      // the epoch.
      this.#addHistograms();
    }
    this.#used += step.used;
    this.#last = step.values;
  }

  #addHistograms(): void {
    const { model, plan, progress, summaries } = this.#parts;
    if (plan.histograms) {
      for (const { name, variable } of model.weights) {
        summaries?.histogram(name, variable, progress.globalStep);
      }
    }
  }

  reportIfDue(read: () => readonly number[]): void {
    if (Date.now() - this.#reportedAt >= PROGRESS_MS) {
      this.#reportProgress(read());
    }
  }

  /** Reports the last step to the job, unless `reportIfDue` has already done so. */
  reportLast(): void {
    if (this.#last !== null && this.#used > 0) {
      this.#reportProgress(this.#last.read());
    }
  }

  #reportProgress(values: readonly number[]): void {
    const { model, progress, report, summaries, expectedSteps } = this.#parts;
    const speed = (this.#used * 1000) / Math.max(1, Date.now() - this.#reportedAt);
    report({
      type: 'progress',
      step: progress.globalStep,
      total: expectedSteps(),
      metrics: {
        ...logsOf(model.metricNames, values, 'train/'),
        'train/examples_per_second': Math.round(speed),
        ...this.#reported.take(),
      },
    });
    summaries?.scalar('examples_per_second', speed, progress.globalStep);
    this.start();
    this.#used = 0;
  }

  /** Reports the means over the validation data to the job, and writes them as summaries. */
  validated(means: readonly number[]): void {
    const { model, progress, report, summaries } = this.#parts;
    const metrics = logsOf(model.metricNames, means, 'val/');
    summaries?.scalars(metrics, progress.globalStep);
    report({ type: 'progress', step: progress.globalStep, metrics });
  }

  printEpoch(epoch: number, logs: Readonly<Record<string, number>>): void {
    const { plan, strategy } = this.#parts;
    if (plan.printsEpochs && strategy.rank === 0) {
      const values = Object.entries(logs).map(([name, value]) => `${name}=${Number(value.toPrecision(4))}`);
      process.stdout.write(`Epoch ${epoch + 1}${Number.isFinite(plan.epochs) ? ` / ${plan.epochs}` : ''}  ${values.join('  ')}\n`);
    }
  }

  /** Warns about weights that training leaves unchanged although the program seems to expect otherwise. */
  #reportUntrained(): void {
    const { model, strategy, onNotice } = this.#parts;
    const { trainable, thawed } = model;
    if (strategy.rank !== 0) {
      return;
    }
    const frozen = new Set(trainable.flatMap((variable) => (variable.trainable ? [] : [variable.name])));
    const unused = strategy.withoutGradient.filter((name) => !frozen.has(name));
    if (unused.length > 0) {
      onNotice(
        `the loss does not depend on ${firstNames(unused, MOST_NAMES)}, so training does not change ${unused.length === 1 ? 'it' : 'them'}`,
      );
    }
    if (thawed.length > 0) {
      onNotice(
        `training ignores ${firstNames(thawed, MOST_NAMES)}, which became trainable after compile: call model.compile() again to train them`,
      );
    }
  }

  /** If training resumes from a checkpoint, names the recurrent layers whose states are lost. */
  reportLostStates(): void {
    const { model, progress, strategy, onNotice } = this.#parts;
    const { step } = progress;
    const layers = model.model.layers.flatMap(({ stateful, name }) => (stateful ? [name] : []));
    if (step > 0 && layers.length > 0 && (strategy.rank === 0 || !strategy.peers.stepsTogether)) {
      const states = `${layers.length === 1 ? 'the state' : 'the states'} of ${firstNames(layers, MOST_NAMES)}`;
      onNotice(
        `checkpoints do not contain ${states}, so training resumes after step ${step} with zeros and may differ from an uninterrupted run`,
      );
    }
  }

  /** Warns once if the optimizer cannot use the backend's native kernels, and once if steps cannot be compiled. */
  reportSlowSteps(): void {
    const { tf, plan, strategy, onNotice, reasonNotCompiled } = this.#parts;
    const { rank, reasonOfSlowSteps } = strategy;
    const native = nativeKernelsOf(tf);
    if (rank !== 0 || native === null) {
      return;
    }
    const report = (what: string, reason: string | null): void => {
      if (reason !== null && !this.#slowSteps.has(what)) {
        this.#slowSteps.add(what);
        onNotice(`${what}: ${reason}`);
      }
    };
    report('the optimizer runs without native kernels, so its steps are slower than necessary', reasonOfSlowSteps);
    const mayCompile = plan.compile !== false && !native.usesGpu;
    report('each step runs as separate operations, which is slower than a compiled graph', mayCompile ? reasonNotCompiled() : null);
  }
}
