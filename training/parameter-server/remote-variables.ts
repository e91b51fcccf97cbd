import type * as tfjs from '@tensorflow/tfjs';
import type { z } from 'zod';
import { TonyError } from '../../conf/errors.ts';
import type { TrainingPosition } from '../checkpoint-format.ts';
import type { OpenedCheckpoint } from '../checkpoint-store.ts';
import { type Layout, layOut, numbersOf, type Piece } from './layout.ts';
import { joinAnswer, signalAnswer, weightsAnswer } from './messages.ts';
import { describeOptimizer, learningRateOf } from './optimizer-description.ts';
import type { TrainedVariable } from './served-shard.ts';
import type { ServerGroup } from './server-group.ts';

export interface RemoteVariablesOptions {
  readonly tf: typeof tfjs;
  readonly rank: number;
  readonly servers: ServerGroup;
  readonly optimizer: tfjs.Optimizer;
  /** float32, in the order in which gradients are applied. */
  readonly variables: readonly tfjs.Variable[];
  /** What checkpoints call each of them. */
  readonly tensors: readonly string[];
  /** The server of each of them; null where it is left to balance. */
  readonly placed: readonly (number | null)[];
  readonly staleness: number | null;
}

/** What a push carries beside gradients. */
export interface PushNews {
  readonly position?: TrainingPosition | undefined;
  readonly signal?: number | undefined;
}

/**
 * A worker's variables, whose truth lies on the parameter servers: gradients are pushed there, and stepped by the optimizer there; the
 * variables here are copies of what was pulled last.
 */
export class RemoteVariables {
  readonly #options: RemoteVariablesOptions;
  #layout: Layout = [];
  /** As this worker has told the servers last; another process of its rank may have told them otherwise. */
  #learningRate: number | null = null;
  #signalled = 0;

  constructor(options: RemoteVariablesOptions) {
    this.#options = options;
    const other = options.variables.find(({ dtype }) => dtype !== 'float32');
    if (other !== undefined) {
      throw new TonyError('MODEL_INVALID', `parameter servers train variables of type float32; ${other.name} is ${other.dtype}`);
    }
  }

  /** Workers whose signal was above 0 in any step that server 0 knows of. */
  get signalled(): number {
    return this.#signalled;
  }

  /** For the chief: whether it is to prepare the servers. Not when another process of its rank has; that one's work is completed then. */
  async needsPreparing(): Promise<boolean> {
    const states = await this.#options.servers.states();
    if (!states.includes('open')) {
      return true;
    }
    await this.open();
    return false;
  }

  /**
   * For the chief: says what each server holds. Its weights are those of the chief's variables, or those of a checkpoint.
   * @throws TonyError CHECKPOINT_DAMAGED, CHECKPOINT_MISFIT, NOT_FOUND, MODEL_INVALID.
   */
  async prepare(
    start: TrainingPosition | null,
    restore: { readonly dir: string; readonly checkpoint: OpenedCheckpoint } | null,
  ): Promise<void> {
    const { tf, servers, optimizer, variables, tensors, placed, staleness } = this.#options;
    const description = describeOptimizer(tf, optimizer);
    const layout = layOut(
      variables.map(({ size }) => size),
      servers.size,
      placed,
    );
    const described = variables.map(
      ({ name, shape }, index): TrainedVariable => ({ name, tensor: tensors[index] as string, shape: [...shape] }),
    );
    const values = restore === null ? variables.map((variable) => variable.dataSync() as Float32Array) : [];
    await servers.askAll((server) => {
      const pieces = layout[server] ?? [];
      return {
        head: {
          ask: 'prepare',
          variables: described as { name: string; tensor: string; shape: number[] }[],
          pieces: [...pieces],
          optimizer: description,
          staleness,
          position: start,
          restore: restore === null ? null : { ...restore, iterations: restore.checkpoint.position.iterations },
        },
        body: restore === null ? pieces.map((piece) => bytesOf(values[piece.variable] as Float32Array, piece)) : [],
      };
    });
  }

  /** For the chief: lets everybody in. */
  async open(): Promise<void> {
    await this.#options.servers.askAll(() => ({ head: { ask: 'open' } }));
  }

  /**
   * Waits until the chief has opened the servers, and takes this worker's place.
   * @returns where it stands; `sealed`: the run is over.
   */
  async join(): Promise<{ readonly position: TrainingPosition | null; readonly sealed: boolean }> {
    const { servers, variables } = this.#options;
    const answers = (await servers.askAll(() => ({ head: { ask: 'join' } }))).map(({ head }) => joinAnswer.parse(head));
    const [first] = answers as [z.infer<typeof joinAnswer>];
    const here = JSON.stringify(variables.map(({ shape }) => shape));
    if (here !== JSON.stringify(first.shapes)) {
      throw new TonyError('RING_MISMATCH', `this worker trains variables of other shapes than the chief: ${here}`);
    }
    this.#layout = answers.map(({ pieces }) => pieces);
    return { position: first.position, sealed: first.sealed };
  }

  /** @param now without waiting for slower workers. */
  async pull(now: boolean): Promise<void> {
    await this.#take((server) => ({ head: { ask: 'pull', now }, bodyBytes: this.#bytesOn(server) }));
  }

  /**
   * Gives the servers one step's gradients, and takes the weights for the next one.
   * @param gradients by variable name, of those that the loss depends on; null without examples. Not disposed.
   */
  async push(gradients: tfjs.NamedTensorMap | null, news: PushNews = {}): Promise<void> {
    const { rank, optimizer, variables } = this.#options;
    const values = variables.map(({ name }) => gradients?.[name]?.dataSync() as Float32Array | undefined);
    const rate = learningRateOf(optimizer);
    // The chief's rate counts for all.
    const changed = rank === 0 && rate !== this.#learningRate;
    this.#learningRate = rate;
    await this.#take((server) => {
      const pieces = this.#layout[server] ?? [];
      const own = server === 0 ? news : {};
      return {
        head: {
          ask: 'push',
          hasExamples: gradients !== null,
          present: pieces.map(({ variable }) => values[variable] !== undefined),
          ...(changed ? { learningRate: rate } : {}),
          ...(own.position === undefined ? {} : { position: own.position }),
          ...(own.signal === undefined ? {} : { signal: own.signal }),
        },
        body: pieces.flatMap((piece) => {
          const numbers = values[piece.variable];
          return numbers === undefined ? [] : [bytesOf(numbers, piece)];
        }),
        bodyBytes: this.#bytesOn(server),
      };
    });
  }

  async signal(signal: number): Promise<void> {
    const { head } = await this.#options.servers.ask(0, { ask: 'signal', signal });
    this.#signalled = signalAnswer.parse(head).signalled;
  }

  async #take(make: Parameters<ServerGroup['askAll']>[0]): Promise<void> {
    const { tf, servers, optimizer, variables } = this.#options;
    const answers = await servers.askAll(make);
    const { iterations, signalled } = weightsAnswer.parse(answers[0]?.head);
    this.#signalled = signalled;
    (optimizer as unknown as { iterations_: number }).iterations_ = iterations;
    const values = this.#joined(answers.map(({ body }) => new Float32Array(body.buffer, body.byteOffset, body.length / 4)));
    tf.tidy(() => {
      for (const [index, variable] of variables.entries()) {
        variable.assign(tf.tensor(values[index] as Float32Array, variable.shape, 'float32'));
      }
    });
  }

  /** Whole variables of the servers' pieces: views where one server has all of it. */
  #joined(bodies: readonly Float32Array[]): Float32Array[] {
    const values: Float32Array[] = [];
    const { variables } = this.#options;
    for (const [server, pieces] of this.#layout.entries()) {
      let at = 0;
      for (const { variable, from, count } of pieces) {
        const numbers = (bodies[server] as Float32Array).subarray(at, at + count);
        const { size } = variables[variable] as tfjs.Variable;
        at += count;
        if (count === size) {
          values[variable] = numbers;
        } else {
          values[variable] ??= new Float32Array(size);
          (values[variable] as Float32Array).set(numbers, from);
        }
      }
    }
    return values;
  }

  #bytesOn(server: number): number {
    return numbersOf(this.#layout[server] ?? []) * 4;
  }
}

function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}
