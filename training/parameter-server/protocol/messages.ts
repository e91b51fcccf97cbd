import * as z from 'zod';
import { trainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { optimizerDescription } from './optimizer-description.ts';

/*
 * The heads of frames. A worker sends requests to a parameter server, which answers each one once. The requests of a run, in order:
 *
 *   hello                  every worker: selects the run; a program may have several runs, at the same time or one after another
 *   prepare, open          the chief: `prepare` sends this server's initial content and the staleness; `open` follows once all servers
 *                          are prepared
 *   join                   every worker: waits until the server is open
 *   enter                  every worker: registers variables and an optimizer before their first use
 *   add                    the chief: sends the entered variables and optimizers that are new to the server
 *   pull, push             every worker: `pull` requests the weights; `push` sends gradients and receives the weights for the next step
 *   assign                 the chief: sends values that its program has assigned to variables
 *   signal, put, get       every worker, to server 0: `signal` sends a number; `put` and `get` share tensors between workers
 *   meet, part             with staleness 0, to server 0: workers pause while the chief takes a checkpoint
 *   positions              the chief: requests the workers' positions
 *   capture, write         the chief: makes the server copy its current state and write the copy to a checkpoint
 *   finish, seal, sealed   `finish`: a worker has no more steps; `seal`: the chief has stored the last checkpoint; `sealed`: the other
 *                          workers wait for the seal
 *   state                  every worker: requests an optimizer's state
 *
 * Variables are numbered in the order in which the chief adds them, and optimizers in the order of their first steps.
 */

const count = z.number().int().nonnegative();
const piece = z.object({ variable: count, from: count, count });
const shape = z.array(count);
const variable = z.object({ name: z.string(), tensor: z.string(), shape });
const storedShape = z.object({ name: z.string(), dtype: z.enum(['float32', 'int32', 'bool']), shape, bytes: count });
const pending = z.object({ step: count, uri: z.string(), jobId: z.string(), generation: count });

/** An OptimizerState. The body contains the slot values for the pieces on this server. */
const optimizerState = z.object({
  iterations: count,
  scalars: z.record(z.string(), z.number()),
  slots: z.array(z.object({ property: z.string(), suffix: z.string(), variable: count })),
});

/** A new optimizer, or an existing optimizer that gets additional `variables`. */
const optimizerHead = z.object({
  index: count,
  description: optimizerDescription,
  variables: z.array(count),
  /**
   * The state that the chief's optimizer had for these variables before this run. For an existing optimizer, the server uses only the
   * slots.
   */
  state: optimizerState,
});
/**
 * `first`: the number of the first variable. The variables are numbered consecutively. `optimizers`: new optimizers, and existing
 * optimizers with additional variables. Body: the weights of the pieces, followed by the slots of the optimizers.
 */
const addition = z.object({ first: count, variables: z.array(variable), pieces: z.array(piece), optimizers: z.array(optimizerHead) });

/**
 * The key of shared tensors: `current` for the non-trainable weights during a run, `last` for the non-trainable weights at the end of a
 * run, or a broadcast's number.
 */
const sharedKey = z.union([z.enum(['current', 'last']), count]);
/** A number that a worker sends to server 0. Server 0 counts the workers that have sent a positive number. */
const signal = z.number();
export const MAX_REASON = 1000;

export const ask = z.discriminatedUnion('ask', [
  /** `run`: the run's number within the program. All workers use the same numbers. */
  z.object({ ask: z.literal('hello'), run: count }),
  /** Body: the same as for `add`, but without weights if `restore` names a checkpoint. */
  z.object({
    ask: z.literal('prepare'),
    addition,
    staleness: count.nullable(),
    position: trainingPosition.nullable(),
    /** The checkpoint that contains the weights and optimizer 0's state. */
    restore: z.object({ dir: z.string(), step: count, iterations: count }).nullable(),
  }),
  z.object({ ask: z.literal('open') }),
  z.object({ ask: z.literal('join') }),
  /**
   * The chief receives the answer immediately. Other workers receive the answer once the chief has added all of these variables and the
   * optimizer.
   */
  z.object({
    ask: z.literal('enter'),
    chief: z.boolean(),
    /** The number of pushes that this worker's process has sent in this run. */
    step: count,
    first: count,
    variables: z.array(z.object({ name: z.string(), shape })),
    optimizer: z.object({ index: count, className: z.string(), variables: z.array(count) }),
  }),
  z.object({ ask: z.literal('add'), addition }),
  /**
   * `now`: answer without waiting for slower workers. `all`: send all variables, including those that have not changed since the last
   * answer.
   */
  z.object({ ask: z.literal('pull'), now: z.boolean(), all: z.boolean() }),
  /** Body: the gradients of the variables in `present`, limited to the pieces on this server. */
  z.object({
    ask: z.literal('push'),
    optimizer: count,
    /** False if the worker had no examples, in which case the servers do not take a step. */
    hasExamples: z.boolean(),
    present: z.array(count),
    /** The worker's learning rate for this step. */
    learningRate: z.number(),
    dropped: z.object({ variables: z.array(count), optimizers: z.array(count) }).optional(),
    position: trainingPosition.optional(),
    signal: signal.optional(),
  }),
  /** Body: the values of the pieces. */
  z.object({ ask: z.literal('assign'), variables: z.array(count) }),
  /** `reason`: why the worker sends the signal. The server keeps the run's first reason. */
  z.object({ ask: z.literal('signal'), signal, reason: z.string().max(MAX_REASON).optional() }),
  /**
   * Reports a worker's position, and that the worker has completed iteration `step`. The chief receives the answer once no other worker can
   * push. Another worker receives the answer once the chief has sent `part` for this or a later step, or can no longer take the checkpoint.
   */
  z.object({ ask: z.literal('meet'), step: count, position: trainingPosition }),
  z.object({ ask: z.literal('part'), step: count }),
  /** Stores tensors for all workers. Body: the bytes of the tensors. */
  z.object({ ask: z.literal('put'), key: sharedKey, tensors: z.array(storedShape) }),
  /** The answer arrives once the tensors are stored. */
  z.object({ ask: z.literal('get'), key: sharedKey }),
  z.object({ ask: z.literal('state'), optimizer: count }),
  z.object({ ask: z.literal('positions') }),
  /** Makes the server copy its current state. The server drops all earlier copies except the copy for step `writing`. */
  z.object({ ask: z.literal('capture'), step: count, writing: count.nullable() }),
  /** Makes the server write its copy for this step to a checkpoint. The chief may safely resend this request. */
  z.object({ ask: z.literal('write'), step: count, dir: z.string(), pending, index: count, count }),
  /** The answer arrives once all workers have finished. */
  z.object({ ask: z.literal('finish'), position: trainingPosition.nullable() }),
  z.object({ ask: z.literal('seal'), failed: z.boolean(), position: trainingPosition.nullable() }),
  z.object({ ask: z.literal('sealed') }),
]);

export type ServerAsk = z.infer<typeof ask>;
export type ServerAskOf<Kind extends ServerAsk['ask']> = Extract<ServerAsk, { ask: Kind }>;

export const helloAnswer = z.object({ state: z.enum(['empty', 'prepared', 'open']) });
export const joinAnswer = z.object({
  /** The position that this rank last reported or, if it has not reported any, its position when the run started. */
  position: trainingPosition.nullable(),
  sealed: z.boolean(),
  /** The number of pushes by this rank in this run, including pushes by its earlier processes. */
  steps: count,
});
/**
 * Body: the weights of the pieces. `known`: true if the server stores all of these variables and the optimizer. Only the chief can receive
 * false, and must then send the missing variables and the optimizer. `size`: the number of weights on the server.
 */
export const enterAnswer = z.object({ known: z.boolean(), pieces: z.array(piece), size: count });
/**
 * Body: the weights of `variables`, limited to the pieces on this server. `iterations`: the number of steps that the pushed optimizer has
 * taken on this server. `signalled`: the number of workers that have sent a positive signal.
 */
export const weightsAnswer = z.object({ variables: z.array(count), iterations: count, signalled: count });
/** Body: the slot values. */
export const stateAnswer = z.object({ state: optimizerState });
export const signalAnswer = z.object({ signalled: count, reason: z.string().nullable() });
export const getAnswer = z.object({ tensors: z.array(storedShape) });
export const positionsAnswer = z.object({ positions: z.array(trainingPosition.nullable()) });
export const captureAnswer = z.object({ iterations: count });
export const writeAnswer = z.object({ shard: z.unknown() });
export const sealedAnswer = z.object({ failed: z.boolean() });
export const refusal = z.object({ code: z.string(), message: z.string() });

export type SharedKey = z.infer<typeof sharedKey>;
export type StoredShape = z.infer<typeof storedShape>;
export type StateHead = z.infer<typeof optimizerState>;
export type OptimizerHead = z.infer<typeof optimizerHead>;
export type AdditionHead = z.infer<typeof addition>;
