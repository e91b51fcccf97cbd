import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor, TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../../platform/errors.ts';
import { joinPositions } from '../../data/reading/dataset-position.ts';
import { assignTensors, capture, misfit, typeOf } from '../../model/stored-tensors.ts';
import { trainedVariables } from '../../model/trainables.ts';
import { configurationOf } from '../../optimizer/optimizer-members.ts';
import { lonePeers, type Peers } from '../../ring/peers.ts';
import type { CustomStepOptions } from '../../strategy/custom-step-options.ts';
import { localGradients } from '../../strategy/local-gradients.ts';
import type { LoopContext, LoopStrategy } from '../../strategy/loop-strategy.ts';
import { hasFinalCheckpoint, openCheckpointWriter, restoreNewest } from '../../strategy/strategy-checkpoints.ts';
import { positionsAnswer } from '../protocol/messages.ts';
import { FixedWeights } from './fixed-weights.ts';
import { readOptimizerState } from './optimizer-state.ts';
import { partOf } from './remote-loop.ts';
import type { RemoteVariables } from './remote-variables.ts';
import { awaitSeal, endRun } from './run-seal.ts';
import type { ServerGroup } from './server-group.ts';
import { type ParameterServers, ServerRun } from './server-run.ts';

export interface ServerLoopOptions extends ParameterServers {
  readonly onDispose: () => void;
}

/** The minimum interval in ms between reports of a worker's position to the servers. */
const POSITION_MS = 200;
/**
 * The strategy for a custom loop with parameter servers, in which the workers step independently.
 *
 * Rank 0, the chief, restores and writes the checkpoints. For each checkpoint, the chief pulls all variables and slots from the servers and
 * writes them to one file, in the same format as a loop with all-reduce. Each worker has its own copy of the non-trainable variables.
 * Checkpoints contain the chief's copy.
 */
export class ServerLoop implements LoopStrategy {
  readonly peers: Peers;
  readonly #options: ServerLoopOptions;
  readonly #context: LoopContext;
  readonly #run: ServerRun;
  readonly #trained: readonly tfjs.Variable[];
  readonly #fixed: FixedWeights;
  /** True for staleness 0. Workers then pause while the chief takes a checkpoint, so the checkpoint contains only complete steps. */
  readonly #meets: boolean;
  /** The position of the checkpoint from which this process has resumed, otherwise null. Set only on the chief. */
  #restored: TrainingPosition | null = null;
  /** The position to send with the next push, or null if no report is due. */
  #position: TrainingPosition | null = null;
  #positionAt = Number.NEGATIVE_INFINITY;
  /** True if this worker has pushed since the last `agree`. The answer to a push also says whether any worker wants to end the loop. */
  #hasPushed = false;
  /** The step of the final checkpoint if the loop had finished before this run began, otherwise null. Set only on the chief. */
  #ended: number | null = null;

  constructor(options: ServerLoopOptions, context: LoopContext) {
    const { rank, worldSize, staleness } = options;
    this.peers = lonePeers(rank, worldSize);
    this.#options = options;
    this.#context = context;
    const { variables, optimizers } = context.state;
    const isTrained = ({ dtype, trainable }: tfjs.Variable) => dtype === 'float32' && trainable && optimizers.length > 0;
    this.#trained = variables.filter(isTrained);
    const fixed = variables.filter((variable) => !isTrained(variable));
    const named = fixed.map((variable) => ({ name: variable.name, variable }));
    this.#fixed = new FixedWeights({
      marks: () => [...fixed.map(({ dataId }) => dataId), ...optimizers.flatMap((each) => Object.values(configurationOf(each)))],
      // Variables are matched by their index in the list, because their names may differ between processes.
      capture: async () => [...(await capture(context.tf, named)), ...(await context.state.captureMembers())],
      restore: async (tensors) => {
        const isMember = ({ name }: StoredTensor) => /^members[:/]/.test(name);
        restoreFixed(
          context.tf,
          fixed,
          tensors.filter((tensor) => !isMember(tensor)),
        );
        await context.state.restoreMembers(tensors.filter(isMember));
      },
    });
    this.#meets = staleness === 0 && worldSize > 1;
    const { checkpoints } = context;
    if (this.#meets && checkpoints !== null && checkpoints.everySteps === null) {
      throw new TonyError('USAGE', 'with parameter servers and staleness 0, cluster.loop writes checkpoints only after a number of steps', {
        hint: 'Set checkpoint.everySteps in job.yaml.',
      });
    }
    const writer = rank === 0 && context.checkpoints !== null ? openCheckpointWriter(context, context.checkpoints) : null;
    this.#run = new ServerRun(options, writer);
  }

  async begin(): Promise<TrainingPosition | null> {
    const { rank } = this.#options;
    await this.#options.settle?.();
    this.#context.state.begin();
    this.#restored = rank === 0 ? await restoreNewest(this.#context, this.#context.state) : null;
    this.#ended = this.#restored?.final ? this.#restored.step : null;
    await this.#run.open(this.#context.tf);
    const { servers, remote } = this.#run;
    if (rank === 0 && (await remote.needsPreparing())) {
      await this.#prepare(remote, servers);
    }
    const { position, sealed, steps } = await remote.join({ goesOn: true });
    if (sealed) {
      await awaitSeal(servers);
    }
    await this.#enterAll(remote, steps === 0);
    await this.#fixed.take(servers, sealed ? 'last' : 'current');
    const isOver = position?.final === true;
    await remote.pull({ now: isOver });
    if (isOver) {
      await remote.pullOptimizers();
      this.#run.finished = true;
    }
    return position;
  }

  /** Initialises the servers with the chief's values, which may come from a checkpoint. */
  async #prepare(remote: RemoteVariables, servers: ServerGroup): Promise<void> {
    const position = this.#restored;
    await this.#fixed.put(servers, 'current');
    await remote.prepare(null, position, null);
    await remote.open();
  }

  /**
   * Registers all variables and optimizers before the first step, so they have the same numbers in every process, even if a process starts
   * at a later step. A variable with slots in the checkpoint is assigned to the optimizer that owns these slots. Any other variable is
   * assigned in its first step.
   * @param isFirst true if no process of this rank has taken a step in this run.
   */
  async #enterAll(remote: RemoteVariables, isFirst: boolean): Promise<void> {
    const { tf, state } = this.#context;
    const variables = this.#trained;
    for (const optimizer of state.optimizers) {
      const slots = isFirst && this.#options.rank === 0 ? readOptimizerState(tf, optimizer, variables).slots : [];
      const given = [...new Set(slots.map(({ variable }) => variable))].map((index) => variables[index] as tfjs.Variable);
      await remote.enter({ optimizer, variables, given });
    }
  }

  async step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number> {
    const { tf } = this.#context;
    const { remote } = this.#run;
    const named = trainedVariables(tf, options.variables ?? this.#trained).variables;
    const variables = named.filter(({ dtype }) => dtype === 'float32');
    await remote.enter({ optimizer, variables });
    const { gradients, values } = localGradients(tf, variables, [partOf(tf, loss, options.examples)]);
    const [value = 0] = values.read();
    const position = this.#position ?? undefined;
    this.#position = null;
    try {
      await remote.push(optimizer, gradients, { position });
    } finally {
      tf.dispose(gradients ?? []);
    }
    this.#hasPushed = true;
    return value;
  }

  /**
   * Sends a signal to server 0 if this worker wants to end the loop. The other workers receive the signal in the answer to their next push.
   */
  async agree(wish: string | null, wantsCheckpoint: boolean): Promise<{ readonly end: string | null; readonly checkpoint: boolean }> {
    // The chief takes checkpoints alone, except with staleness 0.
    const checkpoint = wantsCheckpoint && !this.#meets;
    const { remote } = this.#run;
    const isKnown = this.#hasPushed && remote.signalled === 0;
    this.#hasPushed = false;
    if (wish === null && isKnown) {
      return { end: null, checkpoint };
    }
    const reason = await remote.signal(wish === null ? 0 : 1, wish ?? '');
    return { end: remote.signalled > 0 ? (reason ?? '') : null, checkpoint };
  }

  async afterStep(position: () => Promise<TrainingPosition>): Promise<void> {
    const now = performance.now();
    if (now - this.#positionAt >= POSITION_MS) {
      this.#positionAt = now;
      this.#position = await position();
    }
    if (this.#options.rank === 0) {
      await this.#fixed.updateIfDue(this.#run.servers);
    }
  }

  async checkpoint(position: () => Promise<TrainingPosition>): Promise<void> {
    const { servers, writer } = this.#run;
    if (this.#meets) {
      const taken = await position();
      const step = taken.step - taken.phase.start;
      await servers.ask(0, { ask: 'meet', step, position: taken });
      await this.#record(position);
      if (writer !== null) {
        await servers.ask(0, { ask: 'part', step });
      }
      return;
    }
    await this.#record(position);
  }

  /**
   * Writes a checkpoint with the servers' current variables and slots, and the data positions last reported by the other workers. Does
   * nothing on workers other than the chief.
   */
  async #record(position: () => Promise<TrainingPosition>): Promise<void> {
    const { remote, writer } = this.#run;
    await writer?.record(async () => {
      await remote.pull({ now: true });
      await remote.pullOptimizers();
      const tensors = await this.#context.state.capture();
      return { position: await this.#joined(await position()), tensors };
    });
  }

  async #joined(own: TrainingPosition): Promise<TrainingPosition> {
    const { head } = await this.#run.servers.ask(0, { ask: 'positions' });
    const others = positionsAnswer.parse(head).positions.map((each) => each?.data);
    const data = joinPositions(own.data, others);
    return { ...own, ...(data === undefined ? {} : { data }) };
  }

  async stored(): Promise<void> {
    await this.#run.writer?.finish();
  }

  async finish(position: () => Promise<TrainingPosition>, afterwards: Promise<void>): Promise<void> {
    const { remote, servers } = this.#run;
    // The reported position is not final until the run is sealed. If this process is replaced before the run is sealed, its replacement
    // must run the code below again.
    const reported = { ...(await position()), final: false };
    if (this.#options.rank === 0) {
      await this.#fixed.update(servers);
    }
    await remote.assign();
    // The answers arrive once every worker has finished its steps.
    await servers.askAll(() => ({ head: { ask: 'finish', position: reported } }));
    await remote.pull({ now: true, all: true });
    await remote.pullOptimizers();
    const isChief = this.#options.rank === 0;
    const last = isChief ? await this.#joined(await position()) : reported;
    const store = async () => {
      if (!(await hasFinalCheckpoint(this.#context, last.step, this.#ended))) {
        await this.#run.writer?.record(async () => ({ position: last, tensors: await this.#context.state.capture() }));
      }
      await this.#run.writer?.finish();
    };
    await endRun(servers, this.#fixed, last, isChief ? store : null, afterwards);
    this.#run.finished = true;
  }

  dispose(): void {
    this.#run.close();
    this.#options.onDispose();
  }

  /** Closes the connections when the program ends deliberately. The other workers then do not wait for this worker. */
  close(): void {
    this.#run.close(true);
  }
}

function restoreFixed(tf: typeof tfjs, fixed: readonly tfjs.Variable[], tensors: readonly StoredTensor[]): void {
  const [here, there] = [fixed.map(typeOf).join(', '), tensors.map(typeOf).join(', ')];
  if (here !== there) {
    throw misfit('the state of rank 0', `its untrained variables are ${there || 'none'}, but those of this worker are ${here || 'none'}`);
  }
  assignTensors(
    tf,
    fixed.map((variable, index) => ({ variable, tensor: tensors[index] as StoredTensor })),
  );
}
