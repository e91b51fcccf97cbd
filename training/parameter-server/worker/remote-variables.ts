import type * as tfjs from '@tensorflow/tfjs';
import type { z } from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { TrainingPosition } from '../../checkpoint/checkpoint-format.ts';
import type { OpenedCheckpoint } from '../../checkpoint/checkpoint-store.ts';
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
import { describeOptimizer, learningRateOf } from '../protocol/optimizer-description.ts';
import { type OptimizerState, readOptimizerState, type SlotState, writeOptimizerState } from './optimizer-state.ts';
import type { Answer } from './server-connection.ts';
import type { ServerGroup } from './server-group.ts';

export interface RemoteVariablesOptions {
  readonly tf: typeof tfjs;
  readonly rank: number;
  readonly servers: ServerGroup;
  readonly staleness: number | null;
}

/** An optimizer with its variables, to be entered on the servers before a step. */
export interface Entry {
  readonly optimizer: tfjs.Optimizer;
  /** float32, in the order in which gradients are applied. */
  readonly variables: readonly tfjs.Variable[];
  /** The variables to assign to the optimizer now; all of them by default. */
  readonly given?: readonly tfjs.Variable[];
  /** The name of each variable in checkpoints. */
  readonly tensors?: readonly string[];
  /** The server of each variable; null to let the layout balance it. */
  readonly placed?: readonly (number | null)[];
}

/** What a push contains in addition to gradients. */
export interface PushNews {
  readonly position?: TrainingPosition | undefined;
  readonly signal?: number | undefined;
}

interface RemoteVariable {
  readonly variable: tfjs.Variable;
  /** By server; undefined for a server without a piece. */
  readonly pieces: (Piece | undefined)[];
  /** The data of the last value from the servers. A different data ID means that the program has assigned a value. */
  data: object;
}

interface RemoteOptimizer {
  readonly index: number;
  /** The numbers of its variables, in the order of assignment. */
  readonly ids: number[];
}

const NO_STATE: OptimizerState = { iterations: 0, scalars: {}, slots: [] };

/**
 * A worker's variables in one run. The parameter servers hold the authoritative values: the worker pushes gradients, the servers apply them
 * with the program's optimizers, and the local variables are copies of the last pull. `enter` registers variables and optimizers before the
 * first step that uses them, in the same order in every worker.
 */
export class RemoteVariables {
  readonly #options: RemoteVariablesOptions;
  /** By number, in the order of entry; variables that the program has disposed are deleted. */
  readonly #variables = new Map<number, RemoteVariable>();
  readonly #ids = new Map<number, number>();
  #count = 0;
  readonly #optimizers = new WeakMap<tfjs.Optimizer, RemoteOptimizer>();
  /** By index. Weak references, so that only the program keeps its optimizers alive. */
  readonly #live = new Map<number, WeakRef<tfjs.Optimizer>>();
  #optimizerCount = 0;
  #pushes = 0;
  #signalled = 0;

  constructor(options: RemoteVariablesOptions) {
    this.#options = options;
  }

  /** The number of workers that have signalled a value above 0 in any step known to server 0. */
  get signalled(): number {
    return this.#signalled;
  }

  /**
   * Called on the chief: whether it must prepare the servers. If another process of its rank has already done so, this call completes that
   * work instead.
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
   * Called on the chief: sends each server its initial content. Weights and optimizer state come from the chief or from a checkpoint.
   * @throws TonyError CHECKPOINT_DAMAGED, CHECKPOINT_MISFIT, NOT_FOUND, MODEL_INVALID.
   */
  async prepare(
    entry: Entry | null,
    start: TrainingPosition | null,
    restore: { readonly dir: string; readonly checkpoint: OpenedCheckpoint } | null,
  ): Promise<void> {
    const { servers, staleness } = this.#options;
    const sizes = new Array<number>(servers.size).fill(0);
    const make = entry === null ? () => NOTHING : this.#addition(entry, sizes, restore === null);
    const { step = 0, iterations = 0 } = restore?.checkpoint.position ?? {};
    const from = restore === null ? null : { dir: restore.dir, step, iterations };
    await servers.askAll((server) => {
      const { addition, body } = make(server);
      return { head: { ask: 'prepare', addition, staleness, position: start, restore: from }, body };
    });
  }

  /** Called on the chief: opens the servers for all workers. */
  async open(): Promise<void> {
    await this.#options.servers.askAll(() => ({ head: { ask: 'open' } }));
  }

  /**
   * Waits until the chief has opened the servers, then joins the run.
   * @param how `goesOn`: this process does not repeat the steps of an earlier process of its rank.
   * @returns the position of this rank; `sealed`: the run has ended; `steps`: pushes of this rank so far.
   */
  async join(how: { readonly goesOn?: boolean } = {}): Promise<z.infer<typeof joinAnswer>> {
    const answers = await this.#options.servers.askAll(() => ({ head: { ask: 'join' } }));
    const answer = joinAnswer.parse(answers[0]?.head);
    this.#pushes = how.goesOn === true ? answer.steps : 0;
    return answer;
  }

  /**
   * Registers variables and an optimizer before their first step. New variables take the values of the chief.
   * @throws TonyError RING_MISMATCH when they differ from the chief's; MODEL_INVALID.
   */
  async enter(entry: Entry): Promise<void> {
    const { rank, servers } = this.#options;
    const other = entry.variables.find(({ dtype }) => dtype !== 'float32');
    if (other !== undefined) {
      throw new TonyError('MODEL_INVALID', `parameter servers train variables of type float32; ${other.name} is ${other.dtype}`);
    }
    const fresh = this.#freshOf(entry.variables);
    const known = this.#optimizers.get(entry.optimizer);
    if (fresh.length === 0 && known !== undefined && this.#joinedBy(entry).length === 0) {
      return;
    }
    const ids = this.#idsOf(entry.variables);
    const enter = () =>
      servers.askAll(() => ({
        head: {
          ask: 'enter',
          chief: rank === 0,
          step: this.#pushes,
          first: this.#count,
          variables: fresh.map(({ name, shape }) => ({ name, shape: [...shape] })),
          optimizer: {
            index: known?.index ?? this.#optimizerCount,
            className: entry.optimizer.getClassName(),
            variables: this.#joinedBy(entry).map((variable) => ids.get(variable.id) as number),
          },
        },
        bodyBytes: fresh.reduce((sum, { size }) => sum + size, 0) * 4,
      }));
    let answers = await enter();
    const heads = answers.map(({ head }) => enterAnswer.parse(head));
    if (!heads.every((head) => head.known)) {
      const make = this.#addition(
        entry,
        heads.map(({ size }) => size),
        true,
      );
      await servers.askAll((server) => {
        const { addition, body } = make(server);
        return { head: { ask: 'add', addition }, body };
      });
      answers = await enter();
    }
    this.#entered(entry, fresh, answers);
  }

  /** Variables without a number. */
  #freshOf(variables: readonly tfjs.Variable[]): tfjs.Variable[] {
    return variables.filter(({ id }, index) => !this.#ids.has(id) && variables.findIndex((other) => other.id === id) === index);
  }

  /** The numbers of variables, including the numbers that new ones are about to get. */
  #idsOf(variables: readonly tfjs.Variable[]): Map<number, number> {
    const fresh = new Map(this.#freshOf(variables).map(({ id }, index) => [id, this.#count + index]));
    return new Map(variables.map(({ id }) => [id, this.#ids.get(id) ?? (fresh.get(id) as number)]));
  }

  /** Variables that are not assigned to the optimizer yet. */
  #joinedBy({ optimizer, variables, given = variables }: Entry): tfjs.Variable[] {
    const before = new Set(this.#optimizers.get(optimizer)?.ids);
    return given.filter(({ id }, index) => !before.has(this.#ids.get(id) ?? -1) && given.findIndex((other) => other.id === id) === index);
  }

  /** Called on the chief: creates the addition for each server. */
  #addition(
    entry: Entry,
    sizes: readonly number[],
    withValues: boolean,
  ): (server: number) => { readonly addition: AdditionHead; readonly body: readonly Uint8Array[] } {
    const { tf, servers } = this.#options;
    const fresh = this.#freshOf(entry.variables);
    const joined = this.#joinedBy(entry);
    const ids = this.#idsOf(entry.variables);
    const idOf = ({ id }: tfjs.Variable) => ids.get(id) as number;
    const placed = fresh.map((variable) => entry.placed?.[entry.variables.indexOf(variable)] ?? null);
    const layout = layOut(
      fresh.map(({ size }) => size),
      servers.size,
      placed,
      sizes,
    );
    const variables = fresh.map((variable) => {
      const tensor = entry.tensors?.[entry.variables.indexOf(variable)] ?? `model:${idOf(variable)}:${variable.name}`;
      return { name: variable.name, tensor, shape: [...variable.shape] };
    });
    const values = withValues ? fresh.map((variable) => variable.dataSync() as Float32Array) : [];
    const state = withValues ? readOptimizerState(tf, entry.optimizer, joined) : NO_STATE;
    const slots = state.slots.map(({ variable, ...slot }) => ({ ...slot, of: joined[variable] as tfjs.Variable }));
    const optimizer: OptimizerHead = {
      index: this.#optimizers.get(entry.optimizer)?.index ?? this.#optimizerCount,
      description: describeOptimizer(tf, entry.optimizer),
      variables: joined.map(idOf),
      state: { ...state, slots: slots.map(({ property, suffix, of }) => ({ property, suffix, variable: idOf(of) })) },
    };
    return (server) => {
      const own = layout[server] ?? [];
      const pieces = own.map((piece) => ({ ...piece, variable: this.#count + piece.variable }));
      const pieceOf = (variable: tfjs.Variable) =>
        this.#variables.get(idOf(variable))?.pieces[server] ?? pieces.find((piece) => piece.variable === idOf(variable));
      return {
        addition: { first: this.#count, variables, pieces, optimizers: [optimizer] },
        body: [
          ...(withValues ? own.map((piece) => bytesOf(values[piece.variable] as Float32Array, piece)) : []),
          ...slots.flatMap(({ of, numbers }) => {
            const piece = pieceOf(of);
            return piece === undefined ? [] : [bytesOf(numbers, piece)];
          }),
        ],
      };
    };
  }

  #entered(entry: Entry, fresh: readonly tfjs.Variable[], answers: readonly Answer[]): void {
    const ids = this.#idsOf(entry.variables);
    const joined = this.#joinedBy(entry);
    for (const variable of fresh) {
      this.#ids.set(variable.id, this.#count);
      this.#variables.set(this.#count, { variable, pieces: [], data: variable.dataId });
      this.#count++;
    }
    const optimizer = this.#optimizers.get(entry.optimizer) ?? { index: this.#optimizerCount, ids: [] };
    if (!this.#optimizers.has(entry.optimizer)) {
      this.#optimizers.set(entry.optimizer, optimizer);
      this.#live.set(optimizer.index, new WeakRef(entry.optimizer));
      this.#optimizerCount++;
    }
    optimizer.ids.push(...joined.map(({ id }) => ids.get(id) as number));
    const parts = answers.map(({ head, body }, server) => {
      const { pieces } = enterAnswer.parse(head);
      for (const piece of pieces) {
        (this.#variables.get(piece.variable) as RemoteVariable).pieces[server] = piece;
      }
      return { ids: pieces.map(({ variable }) => variable), body };
    });
    this.#take(parts);
  }

  /** @param how `now`: without waiting for slower workers; `all`: also variables that are unchanged since the last pull. */
  async pull(how: { readonly now: boolean; readonly all?: boolean }): Promise<void> {
    const answers = await this.#options.servers.askAll((server) => ({
      head: { ask: 'pull', now: how.now, all: how.all ?? false },
      bodyBytes: this.#bytesOn(server),
    }));
    this.#taken(answers);
  }

  /**
   * Pushes the gradients of one step, and receives the weights for the next step.
   * @param gradients by variable name, for the variables on which the loss depends; null without examples. Not disposed.
   */
  async push(optimizer: tfjs.Optimizer, gradients: tfjs.NamedTensorMap | null, news: PushNews = {}): Promise<void> {
    const { servers } = this.#options;
    const { index, ids } = this.#optimizers.get(optimizer) as RemoteOptimizer;
    const values = new Map(
      ids.flatMap((id) => {
        const { name } = this.#variable(id).variable;
        const gradient = gradients?.[name];
        return gradient === undefined || gradient === null ? [] : [[id, gradient.dataSync() as Float32Array] as const];
      }),
    );
    const learningRate = learningRateOf(optimizer);
    if (!Number.isFinite(learningRate)) {
      throw new TonyError('USAGE', `the optimizer ${optimizer.getClassName()} has the learning rate ${learningRate}; it must be a number`);
    }
    const dropped = this.#forgetDisposed();
    // Sent before the push, on the same connections.
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
    const iterations = this.#taken(answers);
    (optimizer as unknown as { iterations_: number }).iterations_ = iterations;
  }

  /**
   * Called on all workers; on the chief, sends the servers the values that its program has assigned to variables. Assignments on other
   * workers are ignored.
   */
  async assign(): Promise<void> {
    const { rank, servers } = this.#options;
    const assigned = rank === 0 ? [...this.#variables].filter(([, each]) => each.variable.dataId !== each.data) : [];
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

  /** Sends a signal. @returns the first reason that a worker has given with its signal; null for none. */
  async signal(signal: number, reason = ''): Promise<string | null> {
    const given = reason === '' ? {} : { reason: reason.slice(0, MAX_REASON) };
    const { head } = await this.#options.servers.ask(0, { ask: 'signal', signal, ...given });
    const answer = signalAnswer.parse(head);
    this.#signalled = answer.signalled;
    return answer.reason;
  }

  /** Copies the state of the servers' optimizers into this worker's optimizers. */
  async pullOptimizers(): Promise<void> {
    for (const ref of this.#live.values()) {
      const optimizer = ref.deref();
      if (optimizer !== undefined && !isDisposed(this.#options.tf, optimizer)) {
        await this.#pullOptimizer(optimizer);
      }
    }
  }

  async #pullOptimizer(optimizer: tfjs.Optimizer): Promise<void> {
    const { tf, servers } = this.#options;
    const { index, ids } = this.#optimizers.get(optimizer) as RemoteOptimizer;
    const answers = await servers.askAll(() => ({ head: { ask: 'state', optimizer: index } }));
    // Another process of this rank may have assigned more variables to it.
    const held = answers.flatMap(({ head }) => stateAnswer.parse(head).state.slots.map(({ variable }) => variable));
    const live = [...new Set([...ids, ...held])].filter((id) => this.#variables.get(id)?.variable.isDisposed === false);
    const slots = new Map<string, SlotState>();
    let whole: Pick<OptimizerState, 'iterations' | 'scalars'> = NO_STATE;
    for (const [server, { head, body }] of answers.entries()) {
      const { state } = stateAnswer.parse(head);
      whole = server === 0 ? state : whole;
      let at = 0;
      for (const place of state.slots) {
        const { from, count } = this.#variable(place.variable).pieces[server] as Piece;
        const key = `${place.property}:${place.variable}`;
        const size = this.#variable(place.variable).variable.size;
        const slot = slots.get(key) ?? { ...place, variable: live.indexOf(place.variable), numbers: new Float32Array(size) };
        slot.numbers.set(new Float32Array(body.buffer, body.byteOffset + at * 4, count), from);
        slots.set(key, slot);
        at += count;
      }
    }
    const variables = live.map((id) => this.#variable(id).variable);
    writeOptimizerState(tf, optimizer, variables, { ...whole, slots: [...slots.values()].filter(({ variable }) => variable >= 0) });
  }

  /** Removes and returns what the program has disposed since the last step; null for nothing. */
  #forgetDisposed(): { variables: number[]; optimizers: number[] } | null {
    const variables = [...this.#variables].filter(([, { variable }]) => variable.isDisposed).map(([id]) => id);
    const optimizers = [...this.#live].flatMap(([index, ref]) => {
      const optimizer = ref.deref();
      return optimizer === undefined || isDisposed(this.#options.tf, optimizer) ? [index] : [];
    });
    for (const id of variables) {
      this.#ids.delete((this.#variables.get(id) as RemoteVariable).variable.id);
      this.#variables.delete(id);
    }
    for (const index of optimizers) {
      this.#live.delete(index);
    }
    for (const optimizer of [...this.#live.values()].flatMap((ref) => ref.deref() ?? [])) {
      const { ids } = this.#optimizers.get(optimizer) as RemoteOptimizer;
      ids.splice(0, ids.length, ...ids.filter((id) => this.#variables.has(id)));
    }
    return variables.length + optimizers.length === 0 ? null : { variables, optimizers };
  }

  #taken(answers: readonly Answer[]): number {
    const heads = answers.map(({ head }) => weightsAnswer.parse(head));
    this.#signalled = heads[0]?.signalled ?? 0;
    this.#take(answers.map(({ body }, server) => ({ ids: heads[server]?.variables ?? [], body })));
    return heads[0]?.iterations ?? 0;
  }

  /** @param parts by server: the pieces of these variables, concatenated. */
  #take(parts: readonly { readonly ids: readonly number[]; readonly body: Uint8Array }[]): void {
    const { tf } = this.#options;
    const values = new Map<number, Float32Array>();
    const counts = new Map<number, number>();
    for (const [server, { ids }] of parts.entries()) {
      for (const id of ids) {
        counts.set(id, (counts.get(id) ?? 0) + (this.#variable(id).pieces[server] as Piece).count);
      }
    }
    for (const [server, { ids, body }] of parts.entries()) {
      let at = 0;
      for (const id of ids) {
        const { variable, pieces } = this.#variable(id);
        const { from, count } = pieces[server] as Piece;
        const numbers = new Float32Array(body.buffer, body.byteOffset + at * 4, count);
        at += count;
        if (count === variable.size) {
          values.set(id, numbers);
        } else {
          // The pieces of other servers may be unchanged and absent.
          const isWhole = counts.get(id) === variable.size;
          const whole = values.get(id) ?? (isWhole ? new Float32Array(variable.size) : Float32Array.from(variable.dataSync()));
          whole.set(numbers, from);
          values.set(id, whole);
        }
      }
      if (at * 4 !== body.length) {
        throw new TonyError('RING_MISMATCH', `parameter server ${server} has answered with ${body.length} bytes instead of ${at * 4}`);
      }
    }
    tf.tidy(() => {
      for (const [id, numbers] of values) {
        const remote = this.#variable(id);
        // A program may dispose a variable while its step waits for the servers.
        if (!remote.variable.isDisposed) {
          remote.variable.assign(tf.tensor(numbers, remote.variable.shape, 'float32'));
          remote.data = remote.variable.dataId;
        }
      }
    });
  }

  #bodyOf(server: number, values: ReadonlyMap<number, Float32Array>): Uint8Array[] {
    return [...values].flatMap(([id, numbers]) => {
      const piece = this.#variable(id).pieces[server];
      return piece === undefined ? [] : [bytesOf(numbers, piece)];
    });
  }

  #variable(id: number): RemoteVariable {
    const remote = this.#variables.get(id);
    if (remote === undefined) {
      throw new TonyError('RING_MISMATCH', `this worker does not hold variable ${id}`);
    }
    return remote;
  }

  #bytesOn(server: number): number {
    return [...this.#variables.values()].reduce((sum, { pieces }) => sum + (pieces[server]?.count ?? 0), 0) * 4;
  }
}

const NOTHING = { addition: { first: 0, variables: [], pieces: [], optimizers: [] }, body: [] };

/** Detects a disposed optimizer by its tensors; an optimizer without tensors always counts as alive. */
function isDisposed(tf: typeof tfjs, optimizer: tfjs.Optimizer): boolean {
  return Object.values(optimizer).some((value) => value instanceof tf.Tensor && value.isDisposed);
}

function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}
