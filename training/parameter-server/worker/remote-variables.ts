import type * as tfjs from '@tensorflow/tfjs';
import type * as z from 'zod';
import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import type { OpenedCheckpoint } from '../../../contract/checkpoint/checkpoint-store.ts';
import { TonyError } from '../../../platform/errors.ts';
import { learningRateOf, nameOfOptimizer, setIterations } from '../../optimizer/optimizer-members.ts';
import { layOut, type Piece } from '../protocol/layout.ts';
import {
  type AdditionHead,
  enterAnswer,
  joinAnswer,
  MAX_REASON,
  type OptimizerHead,
  signalAnswer,
  stateAnswer,
  weightsAnswer,
} from '../protocol/messages.ts';
import { describeOptimizer } from '../protocol/optimizer-description.ts';
import { NO_STATE, type OptimizerState, readOptimizerState, type SlotState, writeOptimizerState } from './optimizer-state.ts';
import type { ServerAnswer } from './server-connection.ts';
import type { ServerGroup } from './server-group.ts';
import { type NewEntry, type RegisteredOptimizer, VariableRegistry } from './variable-registry.ts';

/** Returns a piece's bytes, as a view of the variable's values. */
function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}

/** The weights in a server's answer: the concatenated pieces of the variables listed in `ids`. */
interface WeightsPart {
  readonly ids: readonly number[];
  readonly body: Uint8Array;
}

/**
 * Assigns the weights in the servers' answers to the variables.
 * @param parts the answers in server order.
 * @throws TonyError RING_MISMATCH if a body's length does not match its pieces.
 */
function takeWeights(tf: typeof tfjs, registry: VariableRegistry, parts: readonly WeightsPart[]): void {
  const values = wholeValues(registry, parts);
  tf.tidy(() => {
    for (const [id, numbers] of values) {
      const remote = registry.variable(id);
      // The program may have disposed this variable while the step was waiting for the servers.
      if (!remote.variable.isDisposed) {
        remote.variable.assign(tf.tensor(numbers, remote.variable.shape, 'float32'));
        remote.data = remote.variable.dataId;
      }
    }
  });
}

function wholeValues(registry: VariableRegistry, parts: readonly WeightsPart[]): Map<number, Float32Array> {
  const values = new Map<number, Float32Array>();
  const counts = new Map<number, number>();
  for (const [server, { ids }] of parts.entries()) {
    for (const id of ids) {
      counts.set(id, (counts.get(id) ?? 0) + (registry.variable(id).pieces[server] as Piece).count);
    }
  }
  for (const [server, { ids, body }] of parts.entries()) {
    let at = 0;
    for (const id of ids) {
      const { variable, pieces } = registry.variable(id);
      const { from, count } = pieces[server] as Piece;
      const numbers = new Float32Array(body.buffer, body.byteOffset + at * 4, count);
      at += count;
      if (count === variable.size) {
        values.set(id, numbers);
      } else {
        // The answers omit unchanged pieces.
        const isWhole = counts.get(id) === variable.size;
        const whole = values.get(id) ?? (isWhole ? new Float32Array(variable.size) : Float32Array.from(variable.dataSync()));
        whole.set(numbers, from);
        values.set(id, whole);
      }
    }
    if (at * 4 !== body.length) {
      throw new TonyError('RING_MISMATCH', `parameter server ${server} answered with ${body.length} bytes of weights instead of ${at * 4}`);
    }
  }
  return values;
}

interface Addition {
  readonly addition: AdditionHead;
  readonly body: readonly Uint8Array[];
}

const NO_ADDITION: Addition = { addition: { first: 0, variables: [], pieces: [], optimizers: [] }, body: [] };

/**
 * Returns a function that creates the message to each server. The messages add new variables and an optimizer.
 * @param sizes the number of weights that each server already holds.
 * @param withValues false if the servers read weights and slots from a checkpoint.
 */
function additionOf(
  tf: typeof tfjs,
  registry: VariableRegistry,
  { entry, first, variables, optimizer, joined, numberOf }: NewEntry,
  sizes: readonly number[],
  withValues: boolean,
): (server: number) => Addition {
  const places = variables.map((variable) => entry.variables.indexOf(variable));
  const placed = places.map((place) => entry.placed?.[place] ?? null);
  const layout = layOut(
    variables.map(({ size }) => size),
    sizes.length,
    placed,
    sizes,
  );
  const described = variables.map((variable, index) => {
    const tensor = entry.tensors?.[places[index] as number] ?? `model:${numberOf(variable)}:${variable.name}`;
    return { name: variable.name, tensor, shape: [...variable.shape] };
  });
  const values = withValues ? variables.map((variable) => variable.dataSync() as Float32Array) : [];
  const state = withValues ? readOptimizerState(tf, entry.optimizer, joined) : NO_STATE;
  const slots = state.slots.map((slot) => ({ ...slot, variable: numberOf(joined[slot.variable] as tfjs.Variable) }));
  const head: OptimizerHead = {
    index: optimizer,
    description: describeOptimizer(tf, entry.optimizer),
    variables: joined.map(numberOf),
    state: { ...state, slots: slots.map(({ property, suffix, variable }) => ({ property, suffix, variable })) },
  };
  return (server) => {
    const own = layout[server] ?? [];
    const pieces = own.map((piece) => ({ ...piece, variable: first + piece.variable }));
    const pieceOf = (number: number) =>
      registry.variables.get(number)?.pieces[server] ?? pieces.find(({ variable }) => variable === number);
    return {
      addition: { first, variables: described, pieces, optimizers: [head] },
      body: [
        ...(withValues ? own.map((piece) => bytesOf(values[piece.variable] as Float32Array, piece)) : []),
        ...slots.flatMap(({ variable, numbers }) => {
          const piece = pieceOf(variable);
          return piece === undefined ? [] : [bytesOf(numbers, piece)];
        }),
      ],
    };
  };
}

export interface RemoteVariablesOptions {
  readonly tf: typeof tfjs;
  readonly rank: number;
  readonly servers: ServerGroup;
  readonly staleness: number | null;
}

/** The optional content of a push. */
export interface PushNews {
  readonly position?: TrainingPosition | undefined;
  readonly signal?: number | undefined;
}

/**
 * A worker's variables in one run. The parameter servers hold the authoritative values, and update them with the workers' gradients and the
 * program's optimizers. The worker's own variables hold the values from its last pull. Every worker must call `enter` for the same
 * variables and optimizers in the same order, before the first step that uses them.
 */
export class RemoteVariables {
  readonly #options: RemoteVariablesOptions;
  readonly #registry: VariableRegistry;
  #pushes = 0;
  #signalled = 0;

  constructor(options: RemoteVariablesOptions) {
    this.#options = options;
    this.#registry = new VariableRegistry(options.tf);
  }

  /** The number of workers that have sent a positive signal to server 0, as of the last answer. */
  get signalled(): number {
    return this.#signalled;
  }

  /**
   * Returns true if the chief must prepare the servers. If any server is open, an earlier process of rank 0 has already prepared all of
   * them. This method then opens the remaining servers and returns false. Call this method only on the chief.
   */
  async needsPreparing(): Promise<boolean> {
    const states = await this.#options.servers.states();
    if (!states.includes('open')) {
      return true;
    }
    await this.open();
    return false;
  }

  /**
   * Sends each server its initial content. Weights and optimizer state come from the chief or from a checkpoint. Call this method only on
   * the chief.
   * @throws TonyError CHECKPOINT_INVALID, CHECKPOINT_MISMATCH, NOT_FOUND, MODEL_INVALID.
   */
  async prepare(
    entry: RegisteredOptimizer | null,
    start: TrainingPosition | null,
    restore: { readonly dir: string; readonly checkpoint: OpenedCheckpoint } | null,
  ): Promise<void> {
    const { tf, servers, staleness } = this.#options;
    const added = entry === null ? null : this.#registry.newIn(entry);
    const sizes = new Array<number>(servers.size).fill(0);
    const make = added === null ? () => NO_ADDITION : additionOf(tf, this.#registry, added, sizes, restore === null);
    const { step = 0, iterations = 0 } = restore?.checkpoint.position ?? {};
    const from = restore === null ? null : { dir: restore.dir, step, iterations };
    await servers.askAll((server) => {
      const { addition, body } = make(server);
      return { head: { ask: 'prepare', addition, staleness, position: start, restore: from }, body };
    });
  }

  /** Opens the servers for all workers. Call this method only on the chief. */
  async open(): Promise<void> {
    await this.#options.servers.askAll(() => ({ head: { ask: 'open' } }));
  }

  /**
   * Waits until the chief has opened the servers, then joins the run.
   * @param how `goesOn`: true if this process continues where its rank's previous process stopped, or false if it starts the run over.
   * @returns `position`: this rank's position; `sealed`: true if the run has ended; `steps`: the number of this rank's pushes so far.
   */
  async join(how: { readonly goesOn?: boolean } = {}): Promise<z.infer<typeof joinAnswer>> {
    const answers = await this.#options.servers.askAll(() => ({ head: { ask: 'join' } }));
    const answer = joinAnswer.parse(answers[0]?.head);
    this.#pushes = how.goesOn === true ? answer.steps : 0;
    return answer;
  }

  /**
   * Registers variables and an optimizer before their first step. New variables receive the chief's values.
   * @throws TonyError RING_MISMATCH if the variables or the optimizer differ from the chief's; MODEL_INVALID.
   */
  async enter(entry: RegisteredOptimizer): Promise<void> {
    const { tf, rank, servers } = this.#options;
    const other = entry.variables.find(({ dtype }) => dtype !== 'float32');
    if (other !== undefined) {
      throw new TonyError('MODEL_INVALID', `parameter servers train only variables of type float32, but ${other.name} is ${other.dtype}`);
    }
    const added = this.#registry.newIn(entry);
    if (added === null) {
      return;
    }
    const enter = () =>
      servers.askAll(() => ({
        head: {
          ask: 'enter',
          chief: rank === 0,
          step: this.#pushes,
          first: added.first,
          variables: added.variables.map(({ name, shape }) => ({ name, shape: [...shape] })),
          optimizer: {
            index: added.optimizer,
            className: entry.optimizer.getClassName(),
            variables: added.joined.map(added.numberOf),
          },
        },
        bodyBytes: added.variables.reduce((sum, { size }) => sum + size, 0) * 4,
      }));
    let answers = await enter();
    const heads = answers.map(({ head }) => enterAnswer.parse(head));
    if (!heads.every((head) => head.known)) {
      const sizes = heads.map(({ size }) => size);
      const make = additionOf(tf, this.#registry, added, sizes, true);
      await servers.askAll((server) => {
        const { addition, body } = make(server);
        return { head: { ask: 'add', addition }, body };
      });
      answers = await enter();
    }
    this.#entered(added, answers);
  }

  #entered(added: NewEntry, answers: readonly ServerAnswer[]): void {
    this.#registry.register(added);
    const parts = answers.map(({ head, body }, server) => {
      const { pieces } = enterAnswer.parse(head);
      for (const piece of pieces) {
        this.#registry.variable(piece.variable).pieces[server] = piece;
      }
      return { ids: pieces.map(({ variable }) => variable), body };
    });
    takeWeights(this.#options.tf, this.#registry, parts);
  }

  /** Pulls the weights. @param how `now`: do not wait for slower workers; `all`: also pull unchanged variables. */
  async pull(how: { readonly now: boolean; readonly all?: boolean }): Promise<void> {
    const answers = await this.#options.servers.askAll((server) => ({
      head: { ask: 'pull', now: how.now, all: how.all ?? false },
      bodyBytes: this.#bytesOn(server),
    }));
    this.#taken(answers);
  }

  /**
   * Pushes one step's gradients and receives the weights for the next step.
   * @param gradients the gradients by variable name, or null if this worker has no examples. Omit variables on which the loss does not
   *   depend. The caller must dispose the gradients.
   */
  async push(optimizer: tfjs.Optimizer, gradients: tfjs.NamedTensorMap | null, news: PushNews = {}): Promise<void> {
    const { servers } = this.#options;
    const { index, ids } = this.#registry.optimizer(optimizer);
    const values = new Map(
      ids.flatMap((id) => {
        const { name } = this.#registry.variable(id).variable;
        const gradient = gradients?.[name];
        return gradient === undefined || gradient === null ? [] : [[id, gradient.dataSync() as Float32Array] as const];
      }),
    );
    const learningRate = learningRateOf(optimizer);
    if (!Number.isFinite(learningRate)) {
      throw new TonyError(
        'USAGE',
        `the learning rate of the optimizer ${nameOfOptimizer(optimizer)} is ${learningRate}, but must be a number`,
      );
    }
    const dropped = this.#registry.forgetDisposed();
    // The connections preserve order, so the servers receive the assigned values before the push.
    const assigned = this.assign();
    this.#pushes++;
    const pushed = servers.askAll((server) => {
      const own = server === 0 ? news : {};
      return {
        head: {
          ask: 'push',
          optimizer: index,
          hasExamples: gradients !== null,
          present: [...values.keys()],
          learningRate,
          ...(dropped === null ? {} : { dropped }),
          ...(own.position === undefined ? {} : { position: own.position }),
          ...(own.signal === undefined ? {} : { signal: own.signal }),
        },
        body: this.#bodyOf(server, values),
        bodyBytes: this.#bytesOn(server),
      };
    });
    const [answers] = await Promise.all([pushed, assigned]);
    setIterations(optimizer, this.#taken(answers));
  }

  /** Sends the servers any values assigned to variables by the chief's program. Does nothing on other workers. */
  async assign(): Promise<void> {
    const { rank, servers } = this.#options;
    const assigned = rank === 0 ? [...this.#registry.variables].filter(([, each]) => each.variable.dataId !== each.data) : [];
    if (assigned.length === 0) {
      return;
    }
    const values = new Map(assigned.map(([id, { variable }]) => [id, variable.dataSync() as Float32Array]));
    for (const [, each] of assigned) {
      each.data = each.variable.dataId;
    }
    await servers.askAll((server) => ({
      head: { ask: 'assign', variables: [...values.keys()] },
      body: this.#bodyOf(server, values),
    }));
  }

  /** Sends a signal. @returns the reason given by the first worker that sent a signal, or null if none has. */
  async signal(signal: number, reason = ''): Promise<string | null> {
    const given = reason === '' ? {} : { reason: reason.slice(0, MAX_REASON) };
    const { head } = await this.#options.servers.ask(0, { ask: 'signal', signal, ...given });
    const answer = signalAnswer.parse(head);
    this.#signalled = answer.signalled;
    return answer.reason;
  }

  async pullOptimizers(): Promise<void> {
    for (const optimizer of this.#registry.liveOptimizers()) {
      await this.#pullOptimizer(optimizer);
    }
  }

  async #pullOptimizer(optimizer: tfjs.Optimizer): Promise<void> {
    const { tf, servers } = this.#options;
    const { index, ids } = this.#registry.optimizer(optimizer);
    const answers = await servers.askAll(() => ({ head: { ask: 'state', optimizer: index } }));
    // An earlier process of this rank may have assigned more variables to the optimizer.
    const held = answers.flatMap(({ head }) => stateAnswer.parse(head).state.slots.map(({ variable }) => variable));
    const live = [...new Set([...ids, ...held])].filter((id) => this.#registry.variables.get(id)?.variable.isDisposed === false);
    const slots = new Map<string, SlotState>();
    let whole: Pick<OptimizerState, 'iterations' | 'scalars'> = NO_STATE;
    for (const [server, { head, body }] of answers.entries()) {
      const { state } = stateAnswer.parse(head);
      whole = server === 0 ? state : whole;
      let at = 0;
      for (const place of state.slots) {
        const { from, count } = this.#registry.variable(place.variable).pieces[server] as Piece;
        const key = `${place.property}:${place.variable}`;
        const size = this.#registry.variable(place.variable).variable.size;
        const slot = slots.get(key) ?? { ...place, variable: live.indexOf(place.variable), numbers: new Float32Array(size) };
        slot.numbers.set(new Float32Array(body.buffer, body.byteOffset + at * 4, count), from);
        slots.set(key, slot);
        at += count;
      }
    }
    const variables = live.map((id) => this.#registry.variable(id).variable);
    writeOptimizerState(tf, optimizer, variables, { ...whole, slots: [...slots.values()].filter(({ variable }) => variable >= 0) });
  }

  #taken(answers: readonly ServerAnswer[]): number {
    const heads = answers.map(({ head }) => weightsAnswer.parse(head));
    this.#signalled = heads[0]?.signalled ?? 0;
    const parts = answers.map(({ body }, server) => ({ ids: heads[server]?.variables ?? [], body }));
    takeWeights(this.#options.tf, this.#registry, parts);
    return heads[0]?.iterations ?? 0;
  }

  #bodyOf(server: number, values: ReadonlyMap<number, Float32Array>): Uint8Array[] {
    return [...values].flatMap(([id, numbers]) => {
      const piece = this.#registry.variable(id).pieces[server];
      return piece === undefined ? [] : [bytesOf(numbers, piece)];
    });
  }

  #bytesOn(server: number): number {
    return [...this.#registry.variables.values()].reduce((sum, { pieces }) => sum + (pieces[server]?.count ?? 0), 0) * 4;
  }
}
