import { closeSync, openSync, readSync } from 'node:fs';
import type { Report } from '../../contract/process/task-context.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';

/** Maximum length of a report in bytes. Longer lines are ignored. */
const MAX_LINE_BYTES = 64 * 1024;
/** Maximum number of bytes per read. */
const MAX_READ_BYTES = 1 << 20;
const MAX_METRICS = 200;
const MAX_NAME_LENGTH = 200;
const MAX_NOTICES = 20;
const MAX_NOTICE_LENGTH = 1000;

/** Parses and validates a line from the report file. Returns null if the line is not valid. Programs in any language can write the file. */
export function parseReport(line: string): Report | null {
  const value = parseJson(line);
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const { type, step, total, taskRank, message, about, metrics, reason, curves } = value as Readonly<Record<string, unknown>>;
  if (type === 'progress' && isCount(step)) {
    return { type, step, ...(isCount(total) && { total }), ...(curves === true && { curves }), metrics: numbersOf(metrics) };
  }
  if (type === 'checkpoint' && isCount(step)) {
    return { type, step };
  }
  if (type === 'peer-lost' && isCount(taskRank)) {
    return { type, taskRank };
  }
  if (type === 'last-step' && isCount(step)) {
    return { type, step };
  }
  if (type === 'permanent-failure') {
    return { type };
  }
  if (type === 'early-end' && isCount(step) && typeof reason === 'string') {
    return { type, step, reason: reason.slice(0, MAX_NOTICE_LENGTH) };
  }
  if (type === 'notice' && typeof message === 'string') {
    const subject = typeof about === 'string' ? { about: about.slice(0, MAX_NAME_LENGTH) } : {};
    return { type, message: message.slice(0, MAX_NOTICE_LENGTH), ...subject };
  }
  return null;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Omits values that are not finite numbers. JSON represents a NaN loss as null. */
function numbersOf(metrics: unknown): Record<string, number> {
  if (typeof metrics !== 'object' || metrics === null) {
    return {};
  }
  const numbers = Object.entries(metrics).filter(
    (entry): entry is [string, number] => Number.isFinite(entry[1]) && entry[0].length <= MAX_NAME_LENGTH,
  );
  return Object.fromEntries(numbers.slice(0, MAX_METRICS));
}

export class ProgressSoFar {
  #step = 0;
  #total = 0;
  readonly #metrics = new Map<string, number>();
  #checkpointStep = 0;
  #lostRank: number | undefined;
  #notices: readonly TonyMessages['Notice'][] = [];
  #earlyEnd: TonyMessages['EarlyEnd'] | null = null;
  #lastStep: number | null = null;
  #any = false;
  #news = false;
  #malformed = false;
  #isPermanentFailure = false;
  readonly #onCurves: (step: number, metrics: Readonly<Record<string, number>>) => void;

  /** @param onCurves receives the metrics of reports that the executor writes as summaries */
  constructor(onCurves: (step: number, metrics: Readonly<Record<string, number>>) => void = () => {}) {
    this.#onCurves = onCurves;
  }

  /** True if the program has reported that its failure is permanent. */
  get isPermanentFailure(): boolean {
    return this.#isPermanentFailure;
  }

  add(report: Report | null): void {
    if (report === null) {
      if (this.#malformed) {
        return;
      }
      this.#malformed = true;
      this.#note({ text: 'The report file contains an invalid line; invalid lines are ignored.', about: '' });
    } else if (report.type === 'progress') {
      this.#step = report.step;
      this.#total = report.total ?? this.#total;
      // A step beyond the last step means that another phase has begun.
      if (this.#lastStep !== null && report.step > this.#lastStep) {
        this.#lastStep = null;
      }
      if (report.curves === true) {
        this.#onCurves(report.step, report.metrics ?? {});
      }
      for (const [name, value] of Object.entries(report.metrics ?? {})) {
        if (this.#metrics.size < MAX_METRICS || this.#metrics.has(name)) {
          this.#metrics.set(name, value);
        }
      }
    } else if (report.type === 'checkpoint') {
      this.#checkpointStep = Math.max(this.#checkpointStep, report.step);
    } else if (report.type === 'peer-lost') {
      this.#lostRank = report.taskRank;
    } else if (report.type === 'last-step') {
      this.#lastStep = report.step;
    } else if (report.type === 'early-end') {
      this.#earlyEnd = { step: report.step, reason: report.reason };
    } else if (report.type === 'permanent-failure') {
      this.#isPermanentFailure = true;
    } else {
      this.#note({ text: report.message, about: report.about ?? '' });
    }
    this.#any = true;
    this.#news = true;
  }

  #note(notice: TonyMessages['Notice']): void {
    this.#notices = withNotice(this.#notices, notice).slice(0, MAX_NOTICES);
  }

  /** Returns the newest reported values, or null if nothing has changed since the last call. */
  take(): TonyMessages['Progress'] | null {
    if (!this.#news) {
      return null;
    }
    const message = this.all();
    this.#news = false;
    this.#notices = [];
    return message;
  }

  /** Puts back a message that could not be sent, so that the next call to `take` returns it again. */
  giveBack(message: TonyMessages['Progress']): void {
    this.#news = true;
    this.#notices = this.#notices.reduce(withNotice, message.notices).slice(0, MAX_NOTICES);
  }

  all(): TonyMessages['Progress'] | null {
    if (!this.#any) {
      return null;
    }
    return {
      step: this.#step,
      metrics: Object.fromEntries(this.#metrics),
      checkpointStep: this.#checkpointStep,
      notices: [...this.#notices],
      lostRank: this.#lostRank,
      earlyEnd: this.#earlyEnd,
      total: this.#total > 0 ? this.#total : undefined,
      ending: this.#lastStep !== null ? true : undefined,
    };
  }
}

function withNotice(notices: readonly TonyMessages['Notice'][], notice: TonyMessages['Notice']): readonly TonyMessages['Notice'][] {
  return [...notices.filter(({ about }) => about === '' || about !== notice.about), notice];
}

export class ReportFile {
  readonly #path: string;
  readonly #progress: ProgressSoFar;
  #offset = 0;
  #begun: Buffer = Buffer.alloc(0);
  /** True while the rest of a line that is too long is being skipped. */
  #passing = false;

  constructor(path: string, progress: ProgressSoFar) {
    this.#path = path;
    this.#progress = progress;
  }

  /** @param atEnd true if the file is complete, so that the last line does not have to end with a line feed */
  read(atEnd = false): void {
    let chunk = this.#next();
    while (chunk.length > 0) {
      this.#take(chunk);
      if (!atEnd) {
        break;
      }
      chunk = this.#next();
    }
    if (atEnd && this.#begun.length > 0) {
      this.#take(Buffer.from('\n'));
    }
  }

  #next(): Buffer {
    let file: number;
    try {
      file = openSync(this.#path, 'r');
    } catch {
      return Buffer.alloc(0);
    }
    try {
      const buffer = Buffer.allocUnsafe(64 * 1024);
      const chunks: Buffer[] = [];
      for (let read = 0; read < MAX_READ_BYTES; ) {
        const count = readSync(file, buffer, 0, buffer.length, this.#offset);
        if (count === 0) {
          break;
        }
        chunks.push(Buffer.from(buffer.subarray(0, count)));
        this.#offset += count;
        read += count;
      }
      return Buffer.concat(chunks);
    } finally {
      closeSync(file);
    }
  }

  #take(chunk: Buffer): void {
    let data = this.#begun.length === 0 ? chunk : Buffer.concat([this.#begun, chunk]);
    for (let end = data.indexOf(0x0a); end >= 0; end = data.indexOf(0x0a)) {
      if (this.#passing) {
        this.#passing = false;
      } else {
        const line = data.subarray(0, end).toString('utf8').trim();
        if (line !== '') {
          this.#progress.add(end <= MAX_LINE_BYTES ? parseReport(line) : null);
        }
      }
      data = data.subarray(end + 1);
    }
    if (data.length > MAX_LINE_BYTES) {
      if (!this.#passing) {
        this.#progress.add(null);
      }
      this.#passing = true;
      data = Buffer.alloc(0);
    }
    this.#begun = this.#passing ? Buffer.alloc(0) : Buffer.from(data);
  }
}
