import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { ShardDescription, StoredTensor, TrainingPosition } from '../checkpoint-format.ts';
import { isDamage, type OpenedCheckpoint } from '../checkpoint-store.ts';
import type { CheckpointWriter } from '../checkpoint-writer.ts';
import { clipGradients } from '../clip-gradients.ts';
import { joinPositions } from '../datasets/dataset-position.ts';
import type { NamedGradient } from '../gradients.ts';
import { localGradients } from '../local-gradients.ts';
import { openCheckpointWriter } from '../open-checkpoint-writer.ts';
import { lonePeers, type Peers } from '../peers.ts';
import { checkStepOptions } from '../step-options.ts';
import type { StepPart, StepValues } from '../step-part.ts';
import type { CheckpointPlan, StrategyContext, StrategyFactory, TrainingStrategy } from '../strategy.ts';
import { copyOf, restoreWeights } from '../training-state.ts';
import { captureAnswer, positionsAnswer, sealedAnswer, writeAnswer } from './messages.ts';
import { layerNames, placesOf } from './placement.ts';
import { RemoteVariables } from './remote-variables.ts';
import { weightKey } from './served-shard.ts';
import { ServerGroup, type ServerGroupOptions } from './server-group.ts';

export interface ParameterServers extends ServerGroupOptions {
  /** How many steps a worker may be ahead of the slowest one; null for any number. */
  readonly staleness: number | null;
  /** Numbers the runs of this program, in the same order in every worker. */
  readonly nextRun: () => number;
}

export function parameterServerStrategy(servers: ParameterServers): StrategyFactory {
  return { rank: servers.rank, worldSize: servers.worldSize, open: (context) => new ParameterServerStrategy(servers, context) };
}

/** Where this worker stands is told to the servers at most so often. */
const POSITION_MS = 200;
/** How often at most weights that are not trained are, where they have changed: they may be many. */
const FIXED_MS = 2000;
/** What layers change themselves (moving averages), and what is not trained: the chief's counts. */
const FIXED = 'weights that are not trained';
const LAST_FIXED = 'weights that are not trained, at the end';

/** A checkpoint but for what the servers have kept. */
interface Captured {
  readonly position: TrainingPosition;
  readonly fixed: readonly StoredTensor[];
}

interface NamedWeight {
  /** As checkpoints call it. */
  readonly tensor: string;
  readonly variable: tfjs.Variable;
}

/**
 * Each worker steps by itself, on weights that the parameter servers hold: it pushes its gradients, the mean over its own batch, and takes
 * what the weights have become by then. Rank 0, the chief, begins, and keeps the checkpoints; the servers write what they hold, each as it
 * is when it is asked. Moving averages of batch normalisation are each worker's own; the chief's are kept, and everybody's at the end.
 */
class ParameterServerStrategy implements TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  readonly peers: Peers;
  readonly reasonOfSlowSteps = null;
  readonly #options: ParameterServers;
  readonly #context: StrategyContext;
  readonly #writer: CheckpointWriter | null;
  readonly #trained: readonly NamedWeight[];
  readonly #fixed: readonly NamedWeight[];
  readonly #run: number;
  #servers: ServerGroup | null = null;
  #remote: RemoteVariables | null = null;
  #position: TrainingPosition | null = null;
  #positionAt = 0;
  #fixedAt = 0;
  /** What the servers have of the weights that are not trained: each assignment gives a variable other data. */
  #fixedThere: readonly object[] = [];
  /** The checkpoint that is being written. */
  #writing: number | null = null;
  /** The step of this job's final checkpoint, where training was over before this run began; the chief knows. */
  #ended: number | null = null;
  #sealed = false;
  #finished = false;

  constructor(options: ParameterServers, context: StrategyContext) {
    const { rank, worldSize } = options;
    this.rank = rank;
    this.worldSize = worldSize;
    this.peers = lonePeers(rank, worldSize);
    this.#options = options;
    this.#context = context;
    checkStepOptions(context.stepOptions);
    this.#run = options.nextRun();
    const { trainable, weights } = context.model;
    const ids = new Map(weights.map(({ name, variable }, index) => [variable.id, `model:${index}:${name}`]));
    this.#trained = trainable.map((variable) => ({ tensor: ids.get(variable.id) ?? `model::${variable.name}`, variable }));
    const isTrained = new Set(trainable.map(({ id }) => id));
    this.#fixed = weights
      .filter(({ variable }) => !isTrained.has(variable.id))
      .map(({ variable }) => ({ tensor: ids.get(variable.id) as string, variable }));
    this.#writer = rank === 0 && context.checkpoints !== null ? openCheckpointWriter(context, context.checkpoints) : null;
  }

  async begin(): Promise<TrainingPosition | null> {
    const { tf, model, placement } = this.#context;
    const servers = await ServerGroup.open(this.#options, this.#run);
    this.#servers = servers;
    const layers = layerNames(model.model);
    const named = this.#trained.map(({ variable }) => ({ name: variable.name, layer: layers.get(variable.id) ?? '' }));
    const remote = new RemoteVariables({
      tf,
      rank: this.rank,
      servers,
      optimizer: model.optimizer,
      variables: this.#trained.map(({ variable }) => variable),
      tensors: this.#trained.map(({ tensor }) => tensor),
      placed: placesOf(placement, named, servers.size),
      staleness: this.#options.staleness,
    });
    this.#remote = remote;
    if (this.rank === 0 && (await remote.needsPreparing())) {
      await this.#prepare(remote, servers);
    }
    const { position, sealed } = await remote.join();
    this.#sealed = sealed;
    await this.#takeFixed(servers, FIXED);
    this.#fixedAt = performance.now();
    this.#fixedThere = this.#fixedHere();
    await remote.pull(sealed);
    return position;
  }

  /** The newest good checkpoint, or the chief's own weights, onto the servers. */
  async #prepare(remote: RemoteVariables, servers: ServerGroup): Promise<void> {
    const { checkpoints, applicationId, generation } = this.#context;
    await checkpoints?.store.retireOlderThan({ applicationId, generation });
    if (checkpoints === null || !(await this.#prepareFromNewest(remote, servers, checkpoints))) {
      await servers.put(0, FIXED, await this.#captureFixed());
      await remote.prepare(null, null);
    }
    await remote.open();
  }

  async #prepareFromNewest(remote: RemoteVariables, servers: ServerGroup, { store }: CheckpointPlan): Promise<boolean> {
    const { applicationId, onNotice } = this.#context;
    for (const step of await store.steps()) {
      try {
        const checkpoint = await store.openCheckpoint(step);
        this.#checkFits(checkpoint);
        const fixed = new Set(this.#fixed.map(({ tensor }) => weightKey(tensor)));
        const names = checkpoint.manifest.tensors.map(({ name }) => name).filter((name) => fixed.has(weightKey(name)));
        await servers.put(0, FIXED, await store.readTensors(checkpoint, names));
        await remote.prepare(checkpoint.position, { dir: store.dir, checkpoint });
        this.#ended = checkpoint.position.final && checkpoint.manifest.applicationId === applicationId ? step : null;
        onNotice(`training goes on from ${checkpoint.uri}, step ${step}`);
        return true;
      } catch (error) {
        if (!isDamage(error)) {
          throw error;
        }
        onNotice(`checkpoint step-${step} is skipped: ${messageOf(error)}`);
      }
    }
    return false;
  }

  /** @throws TonyError CHECKPOINT_MISFIT. */
  #checkFits({ uri, manifest }: OpenedCheckpoint): void {
    const there = manifest.tensors.filter(({ name }) => name.startsWith('model:'));
    const names = new Set(there.map(({ name }) => name));
    const { weights } = this.#context.model;
    if (names.size !== weights.length) {
      throw new TonyError('CHECKPOINT_MISFIT', `${uri} does not fit this model: it has ${names.size} weights instead of ${weights.length}`);
    }
    const shapes = new Map(there.map(({ name, dtype, shape }) => [name.split(':')[1], `${dtype} [${shape}]`]));
    for (const [index, { name, variable }] of weights.entries()) {
      const [stored, own] = [shapes.get(String(index)), `${variable.dtype} [${variable.shape}]`];
      if (stored !== own) {
        throw new TonyError('CHECKPOINT_MISFIT', `${uri} does not fit this model: weight ${name} is ${stored} there and ${own} here`);
      }
    }
  }

  async #captureFixed(): Promise<StoredTensor[]> {
    const { tf } = this.#context;
    return await Promise.all(
      this.#fixed.map(async ({ tensor, variable }) => {
        const bytes = await copyOf(tf, variable);
        return { name: tensor, dtype: variable.dtype as StoredTensor['dtype'], shape: variable.shape, bytes };
      }),
    );
  }

  /** For the chief: another process of its rank goes on with these. */
  async #leaveFixed(): Promise<void> {
    const here = this.#fixedHere();
    if (here.some((data, index) => data !== this.#fixedThere[index])) {
      this.#fixedAt = performance.now();
      this.#fixedThere = here;
      await (this.#servers as ServerGroup).put(0, FIXED, await this.#captureFixed());
    }
  }

  #fixedHere(): object[] {
    return this.#fixed.map(({ variable }) => variable.dataId);
  }

  async #takeFixed(servers: ServerGroup, name: string): Promise<void> {
    if (this.#fixed.length > 0) {
      const weights = this.#fixed.map(({ tensor, variable }) => ({ name: tensor, variable }));
      const stored = new Map((await servers.get(0, name)).map((tensor) => [weightKey(tensor.name), tensor]));
      // As if they were all that the model has.
      const inOrder = this.#fixed.flatMap(({ tensor }, index) => {
        const found = stored.get(weightKey(tensor));
        return found === undefined ? [] : [{ ...found, name: `model:${index}:${tensor}` }];
      });
      restoreWeights(this.#context.tf, weights, inOrder, 'what the chief trains');
    }
  }

  async step(parts: readonly StepPart[], signals: Float32Array): Promise<StepValues> {
    const { tf, clock, stepOptions } = this.#context;
    const remote = this.#begun();
    clock.enter('compute');
    const own = parts.reduce((sum, { weight }) => sum + weight, 0);
    // The mean over this worker's own examples, whatever the others have.
    const shares = parts.map((part) => ({ ...part, weight: own === 0 ? 0 : part.weight / own }));
    const { gradients, values } = localGradients(
      tf,
      this.#trained.map(({ variable }) => variable),
      shares,
    );
    const clipped = gradients === null ? null : clip(tf, gradients, stepOptions);
    clock.enter('exchange');
    const position = this.#position ?? undefined;
    this.#position = null;
    try {
      await remote.push(clipped, { position, signal: signals[0] });
    } finally {
      tf.dispose(clipped ?? []);
    }
    clock.enter('update');
    this.#readSignals(remote, signals);
    return values;
  }

  async agree(signals: Float32Array): Promise<void> {
    const remote = this.#begun();
    await remote.signal(signals[0] ?? 0);
    this.#readSignals(remote, signals);
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
      if (this.rank === 0 && now - this.#fixedAt >= FIXED_MS) {
        await this.#leaveFixed();
      }
    }
  }

  /**
   * The chief's position; the others' places in the data are those that the servers last heard of. Each server keeps a copy of what it holds
   * when the chief's ask reaches it, between two of the chief's own steps.
   */
  async checkpoint(position: TrainingPosition): Promise<void> {
    if (this.#writer === null) {
      return;
    }
    const { step } = position;
    const writing = this.#writing;
    const servers = this.#servers as ServerGroup;
    const captured = Promise.all([
      this.#captureFixed(),
      servers.ask(0, { ask: 'positions' }).then(({ head }) => positionsAnswer.parse(head).positions),
      servers.askAll(() => ({ head: { ask: 'capture', step, writing } })).then(([first]) => captureAnswer.parse(first?.head).iterations),
    ]).then(([fixed, positions, iterations]): Captured => {
      const data = joinPositions(
        position.data,
        positions.map((other) => other?.data),
      );
      return { position: { ...position, iterations, data }, fixed };
    });
    // Whoever writes hears of it.
    captured.catch(() => {});
    this.#writer.offerSave({ step, write: async () => await this.#write(step, captured) });
    await this.#leaveFixed();
  }

  /** Newer captures leave the servers this one, however long storage takes. */
  async #write(step: number, captured: Promise<Captured>): Promise<void> {
    this.#writing = step;
    try {
      await this.#save(await captured);
    } finally {
      this.#writing = null;
    }
  }

  async #save({ position, fixed }: Captured): Promise<void> {
    const { applicationId, generation, checkpoints } = this.#context;
    const { store } = checkpoints as CheckpointPlan;
    const servers = this.#servers as ServerGroup;
    const { step } = position;
    const pending = await store.beginSave(step, { applicationId, generation });
    const count = servers.size + (fixed.length > 0 ? 1 : 0);
    const answers = await servers.askAll((index) => ({ head: { ask: 'write', step, dir: store.dir, pending, index, count } }));
    const written = answers.map(({ head }) => writeAnswer.parse(head).shard as ShardDescription);
    if (fixed.length > 0) {
      written.push(await store.writeShard(pending, { index: servers.size, count }, fixed));
    }
    await store.commit(pending, position, written);
  }

  async finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void> {
    const remote = this.#begun();
    const servers = this.#servers as ServerGroup;
    if (!this.#sealed) {
      if (this.rank === 0) {
        await this.#leaveFixed();
      }
      // Server 0 answers when nobody has steps left to take.
      await servers.askAll(() => ({ head: { ask: 'finish', position } }));
    }
    if (this.rank === 0 && !this.#sealed) {
      await this.#seal(position, servers, afterwards);
    } else {
      await afterwards;
      const { failed } = sealedAnswer.parse((await servers.ask(0, { ask: 'sealed' })).head);
      if (failed) {
        throw new TonyError('CHECKPOINT_FAILED', 'the chief could not write the last checkpoint');
      }
      await this.#takeFixed(servers, LAST_FIXED);
    }
    await remote.pull(true);
    this.#finished = true;
  }

  /** For the chief: the last checkpoint. */
  async #seal(position: TrainingPosition, servers: ServerGroup, afterwards: Promise<void>): Promise<void> {
    try {
      await servers.put(0, LAST_FIXED, await this.#captureFixed());
      if (!(await this.#isWritten(position.step))) {
        await this.checkpoint(position);
      }
      await Promise.all([this.#writer?.finish(), afterwards]);
    } catch (error) {
      await servers.ask(0, { ask: 'seal', failed: true, position });
      throw error;
    }
    await servers.ask(0, { ask: 'seal', failed: false, position });
  }

  /**
   * Whether the last checkpoint is there already: that of a run that was over before this one began, or one by another process of this rank,
   * since when nothing has changed. It is not put in its own place: for a moment there would be none.
   */
  async #isWritten(step: number): Promise<boolean> {
    const { applicationId, generation, checkpoints } = this.#context;
    if (checkpoints === null) {
      return false;
    }
    try {
      const { position, manifest } = await checkpoints.store.openCheckpoint(step);
      const isOurs = manifest.applicationId === applicationId && (step === this.#ended || manifest.generation === generation);
      return position.final && isOurs;
    } catch (error) {
      if (isDamage(error)) {
        return false;
      }
      throw error;
    }
  }

  #begun(): RemoteVariables {
    if (this.#remote === null) {
      throw new TonyError('USAGE', 'begin() comes first');
    }
    return this.#remote;
  }

  dispose(): void {
    this.#writer?.giveUp();
    this.#servers?.close(this.#finished);
  }
}

/** Those given are disposed where others take their place. */
function clip(tf: typeof tfjs, gradients: tfjs.NamedTensorMap, options: StrategyContext['stepOptions']): tfjs.NamedTensorMap {
  const named = Object.entries(gradients as Record<string, tfjs.Tensor | null>).flatMap(([name, tensor]): NamedGradient[] =>
    tensor === null ? [] : [{ name, tensor }],
  );
  return Object.fromEntries(clipGradients(tf, named, options).map(({ name, tensor }) => [name, tensor]));
}
