import { z } from 'zod';
import { type TrainingPosition, trainingPosition } from '../checkpoint-format.ts';
import { optimizerDescription } from './optimizer-description.ts';

/*
 * The heads of frames: what a worker asks of a parameter server. Each is answered once. In the order of a run:
 *
 *   hello                  everybody: which run is meant; a program may have several, one after the other or side by side
 *   prepare, open          the chief: what this server holds and how it steps; open when all servers are prepared
 *   join                   everybody: answered when it is open
 *   pull, push             everybody: weights of now; gradients, answered by the weights that the worker's next step may begin with
 *   signal, put, get       everybody, server 0: see below
 *   positions              the chief: where the workers stand
 *   capture, write         the chief: keep a copy of what you hold now; write it into this checkpoint
 *   finish, seal, sealed   everybody has no more steps; the chief: the last checkpoint is safe; the others wait for that
 */

const count = z.number().int().nonnegative();
const piece = z.object({ variable: count, from: count, count });
const shape = z.array(count);
/** The same; its type has what is JSON as this program calls it. */
const standing = trainingPosition as unknown as z.ZodType<TrainingPosition>;
const variable = z.object({ name: z.string(), tensor: z.string(), shape });
const storedShape = z.object({ name: z.string(), dtype: z.enum(['float32', 'int32', 'bool']), shape, bytes: count });
const pending = z.object({ step: count, uri: z.string(), applicationId: z.string(), generation: count });

/** Server 0 counts the workers whose signal is above 0, in whichever step that was. */
const signal = z.number();

export const ask = z.discriminatedUnion('ask', [
  /** `run`: counts the runs of the program, the same in each worker. */
  z.object({ ask: z.literal('hello'), run: count }),
  /** Body: the weights of the pieces, unless they are in the checkpoint `restore`. */
  z.object({
    ask: z.literal('prepare'),
    variables: z.array(variable),
    pieces: z.array(piece),
    optimizer: optimizerDescription,
    staleness: count.nullable(),
    position: standing.nullable(),
    /** `checkpoint`: an OpenedCheckpoint, as CheckpointStore gave it. */
    restore: z.object({ dir: z.string(), checkpoint: z.unknown(), iterations: count }).nullable(),
  }),
  z.object({ ask: z.literal('open') }),
  z.object({ ask: z.literal('join') }),
  /** `now`: without waiting for slower workers. */
  z.object({ ask: z.literal('pull'), now: z.boolean() }),
  /** Body: the gradients of the pieces that are `present`. `learningRate`: the chief's, in its first push and when the program has changed it. */
  z.object({
    ask: z.literal('push'),
    /** Without examples there is nothing to step by, on any server. */
    hasExamples: z.boolean(),
    present: z.array(z.boolean()),
    learningRate: z.number().optional(),
    position: standing.optional(),
    signal: signal.optional(),
  }),
  z.object({ ask: z.literal('signal'), signal }),
  /** Leaves tensors for everybody under a name. Body: their bytes. */
  z.object({ ask: z.literal('put'), name: z.string().max(200), tensors: z.array(storedShape) }),
  /** Answered when they are there. */
  z.object({ ask: z.literal('get'), name: z.string().max(200) }),
  z.object({ ask: z.literal('positions') }),
  /** Keeps a copy of everything as it is now, and of those from before only that of the step `writing`. */
  z.object({ ask: z.literal('capture'), step: count, writing: count.nullable() }),
  /** Writes the copy of this step into a checkpoint; may be asked again. */
  z.object({ ask: z.literal('write'), step: count, dir: z.string(), pending, index: count, count }),
  /** Answered, by server 0, when all workers have finished. */
  z.object({ ask: z.literal('finish'), position: standing.nullable() }),
  z.object({ ask: z.literal('seal'), failed: z.boolean(), position: standing.nullable() }),
  z.object({ ask: z.literal('sealed') }),
]);

export type Ask = z.infer<typeof ask>;

export const helloAnswer = z.object({ state: z.enum(['empty', 'prepared', 'open']) });
export const joinAnswer = z.object({
  shapes: z.array(shape),
  pieces: z.array(piece),
  /** Where this worker stood when it was last heard of, or else where the run began. */
  position: standing.nullable(),
  /** The run is over. */
  sealed: z.boolean(),
});
/** Body: the weights of all pieces. `iterations`: the optimizer's steps on this server. `signalled`: see `signal`. */
export const weightsAnswer = z.object({ iterations: count, signalled: count });
export const signalAnswer = z.object({ signalled: count });
export const getAnswer = z.object({ tensors: z.array(storedShape) });
/** By rank. */
export const positionsAnswer = z.object({ positions: z.array(standing.nullable()) });
export const captureAnswer = z.object({ iterations: count });
export const writeAnswer = z.object({ shard: z.unknown() });
export const sealedAnswer = z.object({ failed: z.boolean() });
export const emptyAnswer = z.object({});
export const refusal = z.object({ code: z.string(), message: z.string() });

export type StoredShape = z.infer<typeof storedShape>;
