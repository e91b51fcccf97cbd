import { checkOptionValues, isObject, isTextNotEmpty, isTexts, type OptionRules } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { batchOfRows } from '../formats/tables/table-part.ts';
import type { TableOptions, TableRow } from '../formats/tables/table-values.ts';
import type { TableValue } from '../formats/tables/value-kinds.ts';
import {
  type ChosenColumns,
  checkChosenColumns,
  namesIn,
  type TrainingColumns,
  trainingBatch,
  trainingRow,
} from '../frames/chosen-columns.ts';
import { type FramePart, FramePass } from '../frames/frame-pass.ts';
import { type PieceSource, TaskPieces } from '../reading/piece-source.ts';
import { type DatasetNode, type EpochLimit, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import { CHUNK_ELEMENTS, type Chunk, type ChunkStream } from '../reading/stream.ts';
import { Dataset } from './dataset.ts';

export interface DataFrameOptions extends TableOptions {
  /**
   * Columns that become the model's inputs: `'features'` for one column, `['age', 'height']` for several columns of numbers side by side, or
   * an object with the columns of each input: `{ image: 'pixels', place: ['lat', 'lon'] }`. Elements then have the form `{ xs, ys }`, as
   * `fit` expects. Requires `y`.
   */
  readonly x?: ChosenColumns;
  /** Columns that become the model's targets, in the same forms as `x`. */
  readonly y?: ChosenColumns;
  /** The column that contains the weight of each example in the loss. Requires `x` and `y`. */
  readonly sampleWeight?: string;
}

/** An element of a DataFrame with `x` and `y`. */
export interface TrainingRow {
  readonly xs: TableValue | Readonly<Record<string, TableValue>>;
  readonly ys: TableValue | Readonly<Record<string, TableValue>>;
  readonly sampleWeight?: TableValue;
}

const OPTIONS: OptionRules<DataFrameOptions> = {
  columns: isTexts,
  fill: isObject,
  x: checkChosenColumns,
  y: checkChosenColumns,
  sampleWeight: isTextNotEmpty,
};

/**
 * Yields the rows of a DataFrame that a Spark program sends to the running job with `tony.spark.run(..., feeds={name: df})`, as objects with
 * one field per column. `batch` directly after this function copies whole columns, without an object for each row.
 *
 * Epochs and the seed of the order come from the Spark program: pass n over the dataset reads epoch n. `fit` and `cluster.loop` train for
 * all epochs of the Spark program unless `epochs` limits them. Each rank reads the records that the feed assigns to it. Checkpoints contain
 * the position of each rank, so after a restart, training continues with the first record that it has not used yet.
 *
 * If the Spark program sends a stream, each micro-batch is one epoch, and training ends when the stream ends.
 *
 * `Row` names the types of the columns: `fromDataFrame<{ id: number; features: Float64Array }>('train')`.
 * @param name the name of the feed, which may contain letters, digits, dots, underscores and dashes.
 * @throws TonyError USAGE, while reading, if the program does not run in a job, if its task has no rank, or if the feed contains no
 *   DataFrame; DATA_INVALID for unknown columns, missing values and types that elements cannot hold.
 */
export function fromDataFrame(
  name: string,
  options: DataFrameOptions & { readonly x: ChosenColumns; readonly y: ChosenColumns },
): Dataset<TrainingRow>;
export function fromDataFrame<Row extends object = TableRow>(name: string, options?: DataFrameOptions): Dataset<Row>;
export function fromDataFrame(name: string, options: DataFrameOptions = {}): Dataset<TableRow> | Dataset<TrainingRow> {
  if (!/^[\w.-]{1,100}$/.test(name)) {
    throw new TonyError('USAGE', `"${name}" is not a valid feed name: use letters, digits, dots, underscores and dashes`);
  }
  return frameDataset(name, new TaskPieces(name), options) as Dataset<TableRow>;
}

/** Creates the dataset of `fromDataFrame` from any source of pieces. */
export function frameDataset(name: string, source: PieceSource, options: DataFrameOptions): Dataset<unknown> {
  checkOptionValues('fromDataFrame', options, OPTIONS);
  const training = trainingColumns(options);
  const { fill } = options;
  const columns = training === null ? options.columns : namesIn(training);
  const table = { ...(columns === undefined ? {} : { columns }), ...(fill === undefined ? {} : { fill }) };
  const open = (context: ReadContext, from: Json) => openPass(name, source, table, context, from);
  const count = async (signal: AbortSignal) =>
    (await source.isStream(signal)) ? Number.POSITIVE_INFINITY : (await source.opening(signal)).epochs;
  const epochs: EpochLimit = { source: `the feed ${name}`, count };
  return new Dataset(rowsNode(open, training), false, epochs);
}

function trainingColumns({ columns, x, y, sampleWeight }: DataFrameOptions): TrainingColumns | null {
  if (x === undefined && y === undefined && sampleWeight === undefined) {
    return null;
  }
  if (x === undefined || y === undefined) {
    throw new TonyError('USAGE', 'fromDataFrame needs both x and y, or neither of them');
  }
  if (columns !== undefined) {
    throw new TonyError('USAGE', 'columns and x of fromDataFrame cannot be combined: only the columns in x and y are read');
  }
  return { x, y, sampleWeight };
}

type OpenPass = (context: ReadContext, from: Json) => FramePass;

/** @param from the number of records of the epoch before the position. */
function openPass(name: string, source: PieceSource, options: TableOptions, context: ReadContext, from: Json): FramePass {
  refuseSplits(context, 'fromDataFrame()', 'its records come from a Spark program');
  source.check(context.share);
  const [epoch = 0, ...repeats] = context.passes;
  if (context.dispatchLog === undefined || repeats.length > 0) {
    throw new TonyError('USAGE', `each rank receives only its own records of the feed ${name}, in epochs that the Spark program sets`, {
      hint: 'Do not combine fromDataFrame() with repeat(), cache(), zip(), sampleFrom(), take(), skip() or shard(), and do not use it within interleave().',
    });
  }
  const position = { epoch, records: (from as number | null) ?? 0 };
  return new FramePass(name, { source, position, stream: context.stream }, options, context.signal);
}

function rowsNode(open: OpenPass, training: TrainingColumns | null): DatasetNode<unknown> {
  return {
    open(context, from) {
      const pass = open(context, from);
      let part: FramePart | null = null;
      let used = 0;
      return {
        next: async () => {
          while (part === null || used === part.size) {
            part = await pass.next();
            used = 0;
            if (part === null) {
              return null;
            }
          }
          const to = Math.min(part.size, used + CHUNK_ELEMENTS);
          const rows = part.rows(used, to);
          const items = training === null ? rows : rows.map((row) => trainingRow(row, training));
          const chunk = { items, from: part.position + used, bytes: part.rowBytes * rows.length };
          used = to;
          return chunk;
        },
        close: () => pass.close(),
      };
    },
    batched: (size, dropRemainder) => batchesNode(open, training, size, dropRemainder),
  };
}

function batchesNode(open: OpenPass, training: TrainingColumns | null, size: number, dropRemainder: boolean): DatasetNode<unknown> {
  return { open: (context, from) => new BatchStream(open(context, from), training, size, dropRemainder) };
}

/** Joins parts to batches. A batch begins in one part and may end in a later one. */
class BatchStream implements ChunkStream<unknown> {
  readonly #pass: FramePass;
  readonly #training: TrainingColumns | null;
  readonly #size: number;
  readonly #dropRemainder: boolean;
  #part: FramePart | null = null;
  #used = 0;
  /** Number of the next row that this reader reads, for error messages. */
  #first = 1;

  constructor(pass: FramePass, training: TrainingColumns | null, size: number, dropRemainder: boolean) {
    this.#pass = pass;
    this.#training = training;
    this.#size = size;
    this.#dropRemainder = dropRemainder;
  }

  async next(): Promise<Chunk<unknown> | null> {
    const rows: { readonly part: FramePart; readonly from: number; readonly to: number }[] = [];
    let size = 0;
    while (size < this.#size) {
      if (this.#part === null || this.#used === this.#part.size) {
        this.#part = await this.#pass.next();
        this.#used = 0;
        if (this.#part === null) {
          break;
        }
      }
      const from = this.#used;
      const to = Math.min(this.#part.size, from + this.#size - size);
      rows.push({ part: this.#part, from, to });
      this.#used = to;
      size += to - from;
    }
    const [first] = rows;
    if (first === undefined || (this.#dropRemainder && size < this.#size)) {
      return null;
    }
    const batch = batchOfRows(rows, this.#first);
    this.#first += size;
    const item = this.#training === null ? batch : trainingBatch(batch, this.#training);
    return { items: [item], from: first.part.position + first.from, bytes: first.part.rowBytes * size };
  }

  close(): Promise<void> {
    return this.#pass.close();
  }
}
