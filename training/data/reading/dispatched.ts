import type { Json } from '../../../platform/json-value.ts';
import { type DispatchedPlace, dispatchedPlace, type OpenPass } from './dispatch-log.ts';
import { otherFiles } from './file-set.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatchable } from './read-context.ts';
import type { FileFormat, Split } from './split.ts';
import type { Chunk, ChunkStream } from './stream.ts';

/** Makes the file sources of the inner dataset assign their files on demand. */
export function dispatchNode<T>(inner: DatasetNode<T>): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, 'dispatch()', 'the job already assigns its splits one by one');
      if (context.dispatchLog === undefined) {
        throw undispatchable();
      }
      return inner.open({ ...context, dispatch: true }, from);
    },
  };
}

/** Yields the records of the splits that are assigned to this reader, one split after the other. */
export class DispatchedStream<T> implements ChunkStream<T> {
  readonly #splits: readonly Split[];
  readonly #pass: OpenPass;
  readonly #format: FileFormat<T>;
  readonly #context: ReadContext;
  #number: number;
  #at: Json;
  #chunks: AsyncGenerator<Chunk<T>, void> | null = null;
  #isClosed = false;

  /** @param splits all splits, in the order of assignment. */
  constructor(splits: readonly Split[], pass: OpenPass, format: FileFormat<T>, context: ReadContext, state: Json) {
    const [stored, number, at] = dispatchedPlace(state) ?? [pass.number, 0, null];
    if (stored !== pass.number) {
      throw otherFiles();
    }
    this.#splits = splits;
    this.#pass = pass;
    this.#format = format;
    this.#context = context;
    this.#number = number;
    this.#at = at;
  }

  async next(): Promise<Chunk<T> | null> {
    while (!this.#isClosed) {
      if (this.#chunks === null) {
        const index = await this.#pass.split(this.#number, this.#context.signal);
        if (index === null) {
          if (this.#number === 0 && this.#splits.length > 0) {
            this.#context.onPassedOver?.();
          }
          return null;
        }
        this.#chunks = this.#format.read(this.#splits[index] as Split, this.#at, this.#context);
      }
      const { done, value } = await this.#chunks.next();
      if (!done) {
        const place: DispatchedPlace = { dispatched: [this.#pass.number, this.#number, value.from] };
        return { ...value, from: place };
      }
      this.#chunks = null;
      this.#number++;
      this.#at = null;
    }
    return null;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pass.close();
    await this.#chunks?.return();
  }
}
