import { anySignal } from '../../../platform/async/any-signal.ts';
import { TonyError } from '../../../platform/errors.ts';
import { shuffledOrder } from '../../../platform/random.ts';
import { undecodable } from '../formats/damage.ts';
import type { ColumnValues } from '../formats/tables/column-values.ts';
import { type TableColumn, TablePart } from '../formats/tables/table-part.ts';
import { columnConverter, selectColumns, type TableOptions } from '../formats/tables/table-values.ts';
import type { FieldKind } from '../formats/tables/value-kinds.ts';
import type { FramePiece, PiecePosition, PieceSource } from '../reading/piece-source.ts';
import type { StreamPlace } from '../reading/stream-place.ts';
import type { ArrowField } from './arrow-stream.ts';

/** The rows of one record batch, in the order in which they are read. */
export class FramePart extends TablePart {
  /** Number of records of the epoch before this part. */
  readonly position: number;
  /** Size of one row in bytes. */
  readonly rowBytes: number;

  constructor(
    columns: readonly TableColumn[],
    stored: readonly ColumnValues[],
    { position, rowBytes, ...place }: { order: Uint32Array; position: number; rowBytes: number; whereOf: (row: number) => string },
  ) {
    super(columns, stored, place);
    this.position = position;
    this.rowBytes = rowBytes;
  }
}

/** The columns that a program reads. */
interface OpenColumns {
  readonly columns: readonly TableColumn[];
  /** The index of each column in the file. */
  readonly indices: readonly number[];
}

/** What a pass reads: the records of an epoch from a position on or, in a stream, of the next micro-batch. */
export interface FrameRead {
  readonly source: PieceSource;
  readonly position: PiecePosition;
  /** Undefined if the reader cannot save checkpoints, which a stream requires. */
  readonly stream: StreamPlace | undefined;
}

/**
 * Reads one rank's records of one epoch, part by part. Record batches and their rows have a random order that depends only on the feed's
 * seed, the epoch and the partition. A reader that begins at a later position therefore reads the remaining records in the same order.
 */
export class FramePass {
  readonly #feed: string;
  readonly #options: TableOptions;
  readonly #parts: AsyncGenerator<FramePart, void>;
  readonly #abort = new AbortController();
  #open: OpenColumns | null = null;

  /** @throws TonyError USAGE, while reading, if the source sends fewer epochs. */
  constructor(feed: string, read: FrameRead, options: TableOptions, signal: AbortSignal) {
    this.#feed = feed;
    this.#options = options;
    this.#parts = this.#read(read, anySignal([signal, this.#abort.signal]));
  }

  async next(): Promise<FramePart | null> {
    const { done, value } = await this.#parts.next();
    return done ? null : value;
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#parts.return();
  }

  async *#read({ source, position, stream }: FrameRead, signal: AbortSignal): AsyncGenerator<FramePart, void> {
    if (!(await source.isStream(signal))) {
      yield* this.#readEpoch(source, position, signal);
      return;
    }
    if (stream === undefined) {
      throw new TonyError(
        'USAGE',
        `the feed ${this.#feed} is a stream of Spark, which can only be the training data of fit or cluster.loop`,
        {
          hint: 'The workers must step together, so parameter servers cannot train on a stream.',
        },
      );
    }
    const batch = await stream.next(this.#feed, source, signal);
    if (batch !== null) {
      yield* this.#readEpoch(batch, { ...position, epoch: 0 }, signal);
    }
  }

  async *#readEpoch(source: PieceSource, position: PiecePosition, signal: AbortSignal): AsyncGenerator<FramePart, void> {
    const { epochs, seed } = await source.opening(signal);
    const { epoch } = position;
    if (epoch >= epochs) {
      throw new TonyError('USAGE', `the program reads epoch ${epoch + 1} of the feed ${this.#feed}, which has ${counted(epochs)}`, {
        hint: `Pass epochs=${epoch + 1} or more to tony.spark.run, or read fewer epochs.`,
      });
    }
    let { records } = position;
    for await (const piece of source.pieces(position, signal)) {
      if (piece.epoch !== epoch) {
        return;
      }
      for await (const part of this.#readPiece(piece, seed, records)) {
        records = part.position + part.size;
        yield part;
      }
    }
  }

  async *#readPiece(piece: FramePiece, seed: number | null, position: number): AsyncGenerator<FramePart, void> {
    const { partition, epoch, path } = piece;
    const where = `feed ${this.#feed}, partition ${partition}`;
    // The only import of this module, because it contains apache-arrow, which few programs need.
    const { ArrowStream } = await import('./arrow-stream.ts');
    const stream = await decodingAsync(where, () => ArrowStream.open(path));
    try {
      this.#open ??= this.#choose(stream.fields);
      const { columns, indices } = this.#open;
      const { sizes } = stream;
      let records = position;
      let { skip } = piece;
      const batches = seed === null ? sizes.keys() : shuffledOrder(sizes.length, seed, epoch, partition);
      for (const batch of batches) {
        const size = sizes[batch] as number;
        if (skip >= size) {
          skip -= size;
          continue;
        }
        const order =
          seed === null ? Uint32Array.from({ length: size }, (_, row) => row) : shuffledOrder(size, seed, epoch, partition, batch);
        const stored = await decodingAsync(where, () => stream.read(batch, indices));
        const rowBytes = stream.bytesOf(batch) / size;
        yield new FramePart(columns, stored, { order: order.subarray(skip), position: records, rowBytes, whereOf: () => where });
        records += size - skip;
        skip = 0;
      }
    } finally {
      await stream.close();
    }
  }

  #choose(fields: readonly ArrowField[]): OpenColumns {
    const where = `the feed ${this.#feed}`;
    const chosen = selectColumns(fields, this.#options, where);
    const unsupported = chosen.find(({ kind }) => kind === null);
    if (unsupported !== undefined) {
      throw new TonyError(
        'DATA_INVALID',
        `column ${unsupported.name} of ${where} has the type ${unsupported.type}, which elements of a dataset cannot hold`,
        { hint: 'Convert or drop the column in the Spark program, or name the columns to read: `columns: [...]`.' },
      );
    }
    const columns = (chosen as readonly FieldKind[]).map((field) => ({ ...field, convert: columnConverter(field, this.#options, where) }));
    return { columns, indices: chosen.map((field) => fields.indexOf(field)) };
  }
}

async function decodingAsync<T>(where: string, decode: () => Promise<T>): Promise<T> {
  try {
    return await decode();
  } catch (error) {
    throw undecodable(error, where);
  }
}

function counted(epochs: number): string {
  return epochs === 1 ? 'only one epoch' : `only ${epochs} epochs`;
}
