import type * as tfjs from '@tensorflow/tfjs';
import type { ShardDescription, StoredTensor, TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import type { OpenedCheckpoint } from '../../../contract/checkpoint/checkpoint-store.ts';
import { joinPositions } from '../../data/reading/dataset-position.ts';
import { beginOptimizer, captureMembers, RANK_0, restoreOptimizer, type StateSource } from '../../model/optimizer-state.ts';
import type { StepPart, StepValues } from '../../model/step-part.ts';
import { capture, misfit, type NamedVariable, restoreNamed, typeOf } from '../../model/stored-tensors.ts';
import { restoreWeights } from '../../model/training-state.ts';
import type { NamedGradient } from '../../optimizer/named-gradient.ts';
import { configurationOf } from '../../optimizer/optimizer-members.ts';
import { lonePeers, type Peers } from '../../ring/peers.ts';
import { clipGradients } from '../../strategy/clip-gradients.ts';
import { localGradients } from '../../strategy/local-gradients.ts';
import { layerNames, placesOf } from '../../strategy/placement.ts';
import { checkStepOptions } from '../../strategy/step-options.ts';
import type { CheckpointPlan, StrategyContext, StrategyFactory, TrainingStrategy } from '../../strategy/strategy.ts';
import { hasFinalCheckpoint, openCheckpointWriter } from '../../strategy/strategy-checkpoints.ts';
import { weightKey } from '../protocol/keys.ts';
import { captureAnswer, positionsAnswer, writeAnswer } from '../protocol/messages.ts';
import { FixedWeights } from './fixed-weights.ts';
import type { RemoteVariables } from './remote-variables.ts';
import { endRun } from './run-seal.ts';
import type { ServerGroup } from './server-group.ts';
import { type ParameterServers, ServerRun } from './server-run.ts';
import type { RegisteredOptimizer } from './variable-registry.ts';

export function parameterServerStrategy(servers: ParameterServers): StrategyFactory {
  return { rank: servers.rank, worldSize: servers.worldSize, open: (context) => new ParameterServerStrategy(servers, context) };
}

/** The minimum interval in ms between reports of this worker's position to the servers. */
const POSITION_MS = 200;
/** The parts of a checkpoint that do not come from the servers. */
interface Captured {
  readonly position: TrainingPosition;
  readonly fixed: readonly StoredTensor[];
}

/**
 * Trains with parameter servers. Each worker steps independently: it pushes the mean gradients of its own batch and pulls the current
 * weights.
 *
 * Rank 0, the chief, initialises the servers and coordinates the checkpoints. When the chief requests a checkpoint, each server copies its
 * part of the state. Each worker has its own moving averages for batch normalisation. Checkpoints contain the chief's moving averages, and
 * all workers copy them when training ends.
 */
class ParameterServerStrategy implements TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  readonly peers: Peers;
  readonly reasonOfSlowSteps = null;
  withoutGradient: readonly string[] = [];
  #hasStepped = false;
  readonly #options: ParameterServers;
  readonly #context: StrategyContext;
  readonly #trained: readonly NamedVariable[];
  readonly #fixedWeights: readonly NamedVariable[];
  readonly #fixed: FixedWeights;
  readonly #isFixed: (tensor: string) => boolean;
  readonly #run: ServerRun;
  #position: TrainingPosition | null = null;
  #positionAt = 0;
  /** The step of the checkpoint that is being written, or null if none is. */
  #writing: number | null = null;
  /** The step of the final checkpoint if training had finished before this run began, otherwise null. Set only on the chief. */
  #ended: number | null = null;
  #sealed = false;

  constructor(options: ParameterServers, context: StrategyContext) {
    const { rank, worldSize } = options;
    this.rank = rank;
    this.worldSize = worldSize;
    this.peers = lonePeers(rank, worldSize);
    this.#options = options;
    this.#context = context;
    checkStepOptions(context.stepOptions);
    const { trainable, weights } = context.model;
    const ids = new Map(weights.map(({ name, variable }, index) => [variable.id, `model:${index}:${name}`]));
    this.#trained = trainable.map((variable) => ({ name: ids.get(variable.id) ?? `model::${variable.name}`, variable }));
    const isTrained = new Set(trainable.map(({ id }) => id));
    const fixed = weights
      .filter(({ variable }) => !isTrained.has(variable.id))
      .map(({ variable }) => ({ name: ids.get(variable.id) as string, variable }));
    const fixedKeys = new Set(fixed.map(({ name }) => weightKey(name)));
    this.#isFixed = (tensor) => fixedKeys.has(weightKey(tensor)) || /^(members|variable)[:/]/.test(tensor);
    this.#fixedWeights = fixed;
    const { tf, model } = context;
    const { optimizer } = model;
    this.#fixed = new FixedWeights({
      marks: () => [...[...fixed, ...context.kept()].map(({ variable }) => variable.dataId), ...Object.values(configurationOf(optimizer))],
      capture: async () => [...(await capture(tf, [...fixed, ...context.kept()])), ...(await captureMembers(tf, optimizer, trainable))],
      restore: async (tensors) => await this.#restoreFixed(fixed, tensors, RANK_0),
    });
    const writer = rank === 0 && context.checkpoints !== null ? openCheckpointWriter(context, context.checkpoints) : null;
    this.#run = new ServerRun(options, writer);
  }

  async #restoreFixed(fixed: readonly NamedVariable[], tensors: readonly StoredTensor[], from: StateSource): Promise<void> {
    const { tf, model, kept } = this.#context;
    restoreFixed(tf, fixed, tensors);
    restoreNamed(tf, kept(), tensors, from.where);
    await restoreOptimizer(tf, model.optimizer, model.trainable, tensors, from);
  }

  async begin(): Promise<TrainingPosition | null> {
    const { tf, model, placement } = this.#context;
    beginOptimizer(model.optimizer);
    await this.#options.settle?.();
    await this.#run.open(tf);
    const { servers, remote } = this.#run;
    const layers = layerNames(model.model);
    const named = this.#trained.map(({ variable }) => ({ name: variable.name, layer: layers.get(variable.id) ?? '' }));
    const entry: RegisteredOptimizer = {
      optimizer: model.optimizer,
      variables: this.#trained.map(({ variable }) => variable),
      tensors: this.#trained.map(({ name }) => name),
      placed: placesOf(placement, named, servers.size),
    };
    if (this.rank === 0 && (await remote.needsPreparing())) {
      await this.#prepare(remote, entry, servers);
    }
    const { position, sealed } = await remote.join();
    this.#sealed = sealed;
    await remote.enter(entry);
    await this.#fixed.take(servers, 'current');
    await remote.pull({ now: sealed });
    return position;
  }

  /** Initialises the servers from the newest valid checkpoint or, if there is none, from the chief's own weights. */
  async #prepare(remote: RemoteVariables, entry: RegisteredOptimizer, servers: ServerGroup): Promise<void> {
    const { checkpoints, jobId, generation } = this.#context;
    await checkpoints?.store.retireOlderThan({ jobId, generation });
    if (checkpoints === null || !(await this.#prepareFromNewest(remote, entry, servers, checkpoints))) {
      await this.#fixed.put(servers, 'current');
      await remote.prepare(entry, null, null);
    }
    if (this.#ended === null) {
      await checkpoints?.store.marks.clearEnd();
    }
    await remote.open();
  }

  async #prepareFromNewest(
    remote: RemoteVariables,
    entry: RegisteredOptimizer,
    servers: ServerGroup,
    { store, phase }: CheckpointPlan,
  ): Promise<boolean> {
    const { onNotice } = this.#context;
    const prepare = async (checkpoint: OpenedCheckpoint) => {
      this.#checkFits(checkpoint);
      const names = checkpoint.manifest.tensors.map(({ name }) => name).filter(this.#isFixed);
      const stored = await store.readTensors(checkpoint, names);
      await this.#restoreFixed(this.#fixedWeights, stored, { where: checkpoint.uri, isShared: false });
      await this.#fixed.put(servers, 'current');
      await remote.prepare(entry, { ...checkpoint.position, final: phase.isOver(checkpoint) }, { dir: store.dir, checkpoint });
    };
    const found = await phase.newest(store, prepare, onNotice);
    if (found === null) {
      return false;
    }
    this.#ended = found.position.final ? found.position.step : null;
    onNotice(phase.noticeOf(found));
    return true;
  }

  #checkFits({ uri, manifest }: OpenedCheckpoint): void {
    const storedWeights = manifest.tensors.filter(({ name }) => name.startsWith('model:'));
    const names = new Set(storedWeights.map(({ name }) => name));
    const { weights } = this.#context.model;
    if (names.size !== weights.length) {
      throw misfit(uri, `it has ${names.size} weights instead of ${weights.length}`);
    }
    const shapes = new Map(storedWeights.map((tensor) => [tensor.name.split(':')[1], typeOf(tensor)]));
    for (const [index, { name, variable }] of weights.entries()) {
      const [stored, own] = [shapes.get(String(index)), typeOf(variable)];
      if (stored !== own) {
        throw misfit(uri, `weight ${name} is ${stored} in the checkpoint, but ${own} in the model`);
      }
    }
  }

  async step(parts: readonly StepPart[], signals: Float32Array, endReason: string | null): Promise<StepValues> {
    const { tf, clock, stepOptions } = this.#context;
    const { remote } = this.#run;
    if (endReason !== null) {
      // Other workers may end as soon as they receive the signal, so the reason is sent first.
      await remote.signal(1, endReason);
    }
    clock.enter('compute');
    const own = parts.reduce((sum, { weight }) => sum + weight, 0);
    const shares = parts.map((part) => ({ ...part, weight: own === 0 ? 0 : part.weight / own }));
    const { gradients, values } = localGradients(
      tf,
      this.#trained.map(({ variable }) => variable),
      shares,
    );
    if (gradients !== null && !this.#hasStepped) {
      this.#hasStepped = true;
      this.withoutGradient = this.#trained.flatMap(({ variable: { name } }) => (gradients[name] ? [] : [name]));
    }
    const clipped = gradients === null ? null : clip(tf, gradients, stepOptions);
    clock.enter('exchange');
    const position = this.#position ?? undefined;
    this.#position = null;
    try {
      await remote.push(this.#context.model.optimizer, clipped, { position, signal: signals[0] });
    } finally {
      tf.dispose(clipped ?? []);
    }
    clock.enter('update');
    this.#readSignals(remote, signals);
    return values;
  }

  async agree(signals: Float32Array, endReason: string | null): Promise<void> {
    const { remote } = this.#run;
    await remote.signal(signals[0] ?? 0, endReason ?? '');
    this.#readSignals(remote, signals);
  }

  async shareReason(own: string): Promise<string> {
    return (await this.#run.remote.signal(own === '' ? 0 : 1, own)) ?? '';
  }

  #readSignals(remote: RemoteVariables, signals: Float32Array): void {
    if (signals.length > 0) {
      signals[0] = remote.signalled;
    }
  }

  async afterStep(position: () => Promise<TrainingPosition>): Promise<void> {
    const now = performance.now();
    if (now - this.#positionAt >= POSITION_MS) {
      this.#positionAt = now;
      this.#position = await position();
      if (this.rank === 0) {
        await this.#fixed.updateIfDue(this.#run.servers);
      }
    }
  }

  /** Holds only what the servers do not hold. */
  async hold(): Promise<() => Promise<void>> {
    const tensors = await this.#fixed.capture();
    return async () => await this.#restoreFixed(this.#fixedWeights, tensors, RANK_0);
  }

  /**
   * Takes a checkpoint with the chief's position, and with the data positions last reported by the other workers. Each server copies its
   * part between two of the chief's steps.
   */
  async checkpoint(position: TrainingPosition): Promise<void> {
    const { servers, writer } = this.#run;
    if (writer === null) {
      return;
    }
    const { step } = position;
    const writing = this.#writing;
    const captured = Promise.all([
      this.#fixed.capture(),
      servers.ask(0, { ask: 'positions' }).then(({ head }) => positionsAnswer.parse(head).positions),
      servers.askAll(() => ({ head: { ask: 'capture', step, writing } })).then(([first]) => captureAnswer.parse(first?.head).iterations),
    ]).then(([fixed, positions, iterations]): Captured => {
      const data = joinPositions(
        position.data,
        positions.map((other) => other?.data),
      );
      return { position: { ...position, iterations, data }, fixed };
    });
    // `#write` handles the error.
    captured.catch(() => {});
    writer.offerSave({ step, isBad: position.diverged === true, write: async () => await this.#write(step, captured) });
    await this.#fixed.update(servers);
  }

  /** Writes a captured checkpoint. While `#writing` is set, servers keep this capture even if the chief requests newer ones. */
  async #write(step: number, captured: Promise<Captured>): Promise<void> {
    this.#writing = step;
    try {
      await this.#save(await captured);
    } finally {
      this.#writing = null;
    }
  }

  async #save({ position, fixed }: Captured): Promise<void> {
    const { jobId, generation, checkpoints } = this.#context;
    const { store } = checkpoints as CheckpointPlan;
    const { servers } = this.#run;
    const { step } = position;
    const pending = await store.beginSave(step, { jobId, generation });
    const count = servers.size + 1;
    const answers = await servers.askAll((index) => ({ head: { ask: 'write', step, dir: store.dir, pending, index, count } }));
    const written = answers.map(({ head }) => writeAnswer.parse(head).shard as ShardDescription);
    written.push(await store.writeShard(pending, { index: servers.size, count }, fixed));
    await store.commit(pending, position, written);
  }

  async stored(): Promise<void> {
    await this.#run.writer?.finish();
  }

  async finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void> {
    const { remote, servers } = this.#run;
    if (!this.#sealed) {
      if (this.rank === 0) {
        await Promise.all([this.#fixed.update(servers), remote.assign()]);
      }
      // The answers arrive once every worker has finished its steps.
      await servers.askAll(() => ({ head: { ask: 'finish', position } }));
    }
    const store = async () => {
      if (!(await hasFinalCheckpoint(this.#context, position.step, this.#ended))) {
        await this.checkpoint(position);
      }
      await this.#run.writer?.finish();
    };
    await endRun(servers, this.#fixed, position, this.rank === 0 && !this.#sealed ? store : null, afterwards);
    await remote.pull({ now: true, all: true });
    await remote.pullOptimizers();
    this.#run.finished = true;
  }

  dispose(): void {
    this.#run.close();
  }
}

/** Clips the gradients, and disposes the original gradients that it replaces. */
function clip(tf: typeof tfjs, gradients: tfjs.NamedTensorMap, options: StrategyContext['stepOptions']): tfjs.NamedTensorMap {
  const named = Object.entries(gradients as Record<string, tfjs.Tensor | null>).flatMap(([name, tensor]): NamedGradient[] =>
    tensor === null ? [] : [{ name, tensor }],
  );
  return Object.fromEntries(clipGradients(tf, named, options).map(({ name, tensor }) => [name, tensor as tfjs.Tensor]));
}

/** Assigns the chief's non-trainable weights to this worker's variables, whose names may differ from the chief's. */
function restoreFixed(tf: typeof tfjs, fixed: readonly NamedVariable[], stored: readonly StoredTensor[]): void {
  const byKey = new Map(stored.map((tensor) => [weightKey(tensor.name), tensor]));
  // `restoreWeights` matches weights by their index in the model.
  const inOrder = fixed.flatMap(({ name }, index) => {
    const found = byKey.get(weightKey(name));
    return found === undefined ? [] : [{ ...found, name: `model:${index}:${name}` }];
  });
  restoreWeights(tf, fixed, inOrder, 'the state of rank 0');
}
