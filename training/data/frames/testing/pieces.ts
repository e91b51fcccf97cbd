import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeVector, RecordBatch, RecordBatchStreamWriter, type Schema, Table, Utf8, type Vector, vectorFromArray } from 'apache-arrow';
import { shuffledOrder } from '../../../../platform/random.ts';
import type { FramePiece, PieceOpening, PiecePosition, PieceSource, StreamBatch, StreamQuestion } from '../../reading/piece-source.ts';
import { folderWith } from '../../testing/files.ts';

export type Columns = Readonly<Record<string, readonly string[] | Int32Array | Float64Array | BigInt64Array>>;

/** Returns an Arrow stream with one record batch for each set of columns. */
export function arrowBytes(batches: readonly Columns[]): Uint8Array {
  const tables = batches.map(
    (columns) => new Table(Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, vectorOf(values)]))),
  );
  const writer = new RecordBatchStreamWriter();
  const schema = tables[0]?.schema as Schema;
  for (const { data } of tables.flatMap(({ batches: each }) => each)) {
    writer.write(new RecordBatch(schema, data));
  }
  return writer.finish().toUint8Array(true);
}

function vectorOf(values: Columns[string]): Vector {
  return ArrayBuffer.isView(values) ? makeVector(values) : vectorFromArray(values as readonly string[], new Utf8());
}

export interface StoredPiece {
  readonly path: string;
  readonly records: number;
}

/** Writes partitions to files. Each has one record batch for each set of columns. */
export async function storedPieces(partitions: readonly (readonly Columns[])[]): Promise<StoredPiece[]> {
  const folder = await folderWith();
  return await Promise.all(
    partitions.map(async (batches, partition) => {
      const file = path.join(folder, String(partition));
      await writeFile(file, arrowBytes(batches));
      return { path: file, records: batches.reduce((sum, columns) => sum + (Object.values(columns)[0]?.length ?? 0), 0) };
    }),
  );
}

/** Gives the pieces of one rank in the order in which an executor gives them. */
export class FakePieces implements PieceSource {
  readonly #pieces: readonly StoredPiece[];
  readonly #opening: PieceOpening;
  /** The positions from which readers have read. */
  readonly positions: PiecePosition[] = [];

  constructor(pieces: readonly StoredPiece[], opening: Partial<PieceOpening> = {}) {
    this.#pieces = pieces;
    this.#opening = { format: 'arrow', partitions: pieces.length, epochs: 1, seed: 7, ...opening };
  }

  check(): void {}

  async isStream(): Promise<boolean> {
    return false;
  }

  async nextBatch(_question: StreamQuestion): Promise<StreamBatch | null> {
    throw new Error('these pieces are not a stream');
  }

  async opening(): Promise<PieceOpening> {
    return this.#opening;
  }

  async *pieces(position: PiecePosition): AsyncGenerator<FramePiece, void> {
    this.positions.push(position);
    let skip = position.records;
    for (let { epoch } = position; epoch < this.#opening.epochs; epoch++) {
      for (const partition of shuffledOrder(this.#pieces.length, this.#opening.seed ?? 0, epoch)) {
        const piece = this.#pieces[partition] as StoredPiece;
        if (skip >= piece.records && piece.records > 0) {
          skip -= piece.records;
        } else {
          yield { ...piece, epoch, partition, skip };
          skip = 0;
        }
      }
    }
  }
}

/** Gives the micro-batches of one query to one rank. Ends with the last one. */
export class FakeStream extends FakePieces {
  readonly #batches: readonly StreamBatch[];
  readonly #asked: () => Promise<unknown>;
  readonly questions: StreamQuestion[] = [];

  /** @param asked called with each question. */
  constructor(batches: readonly StreamBatch[], asked: () => Promise<unknown> = async () => {}) {
    super([]);
    this.#batches = batches;
    this.#asked = asked;
  }

  override async isStream(): Promise<boolean> {
    return true;
  }

  override async nextBatch(question: StreamQuestion): Promise<StreamBatch | null> {
    this.questions.push(question);
    await this.#asked();
    return this.#batches.find(({ number }) => number >= question.next) ?? null;
  }
}
