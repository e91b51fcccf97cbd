import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import { suggest } from '../conf/suggest.ts';
import type { JobConnection, LogSource } from './job-connection.ts';

export interface LogOptions {
  /** `worker`, `worker:1` or `master`; default every task. */
  readonly task?: string | undefined;
  /** Names of the files in each container's log folder; default stdout and stderr. */
  readonly files?: readonly string[];
  /** Only so many last lines of each file. */
  readonly tail?: number | undefined;
  /** Go on until the job is over. */
  readonly follow?: boolean;
  readonly intervalMs?: number;
  readonly signal?: AbortSignal;
}

export interface LogLine {
  /** `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  readonly file: string;
  /** Without its newline. */
  readonly text: string;
}

/** More than a line needs: only as much of a file's end is fetched as `tail` lines will hardly exceed. */
const BYTES_A_LINE = 4096;
const LONGEST_LINE = 1 << 20;

/**
 * What a job's programs wrote: live from the nodes, after the end from where YARN collected it; container after container, the oldest
 * first. Following, the lines of all tasks come as they are written.
 *
 * @throws TonyError APPLICATION_UNKNOWN, TASK_UNKNOWN, LOGS_UNAVAILABLE, or that the cluster cannot be reached.
 */
export async function* jobLogs(connection: JobConnection, options: LogOptions = {}): AsyncGenerator<LogLine> {
  const { tail, follow = false, intervalMs = 500, signal } = options;
  const readers = new Map<string, LogReader>();
  for (let first = true; ; first = false) {
    signal?.throwIfAborted();
    // Asked before reading: what is written after the job was seen to be over is nothing.
    const over = !follow || (await connection.observe()).result !== null;
    const sources = chosen(await connection.logs(), options.task, follow && !over);
    for (const source of sources) {
      for (const file of filesOf(source, options.files)) {
        const key = `${source.containerId} ${file}`;
        const reader = readers.get(key) ?? new LogReader(source, file, first ? tail : undefined);
        readers.set(key, reader);
        yield* reader.lines(over, source);
      }
    }
    if (over) break;
    await delay(intervalMs, undefined, { ...(signal && { signal }) }).catch(() => undefined);
  }
  if ([...readers.values()].every((reader) => !reader.found)) {
    throw new TonyError('LOGS_UNAVAILABLE', `There are no logs of ${options.task ?? connection.applicationId} yet.`, {
      hint: 'YARN collects them some seconds after the end of a job; try again then.',
    });
  }
}

function filesOf(source: LogSource, files: readonly string[] | undefined): readonly string[] {
  // The master runs no user's program: its own log is what there is.
  return source.task === 'master' ? ['tony.log', 'stderr'] : (files ?? ['stdout', 'stderr']);
}

function chosen(sources: readonly LogSource[], task: string | undefined, mayCome: boolean): LogSource[] {
  const tasks = sources.filter((source) => source.task !== 'master');
  if (task === undefined) return tasks.length > 0 || mayCome ? tasks : [...sources];
  const matching = sources.filter((source) => source.task === task || source.task.split(':')[0] === task);
  if (matching.length > 0 || (mayCome && tasks.length === 0)) return matching;
  const known = [...new Set(sources.map((source) => source.task))];
  const meant = suggest(task, [...known, ...known.map((name) => name.split(':')[0] ?? name)]);
  throw new TonyError('TASK_UNKNOWN', `The job has no task ${task}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
    hint: known.length === 0 ? 'No container has been started.' : `It has: ${known.join(', ')}.`,
  });
}

/** Turns the pieces of one growing file into whole lines. */
class LogReader {
  found = false;
  readonly #file: string;
  readonly #tail: number | undefined;
  readonly #decoder = new TextDecoder();
  #source: LogSource;
  #end: number | null = null;
  #rest = '';

  constructor(source: LogSource, file: string, tail: number | undefined) {
    this.#source = source;
    this.#file = file;
    this.#tail = tail;
  }

  async *lines(over: boolean, source: LogSource): AsyncGenerator<LogLine> {
    this.#source = source;
    let skipped: string[] | null = this.#end === null && this.#tail !== undefined ? [] : null;
    for (;;) {
      const from = this.#end === null && this.#tail !== undefined ? { tail: this.#tail * BYTES_A_LINE } : { offset: this.#end ?? 0 };
      const piece = await source.read(this.#file, from);
      if (piece === null) break;
      this.found = true;
      this.#end = piece.end;
      const lines = (this.#rest + this.#decoder.decode(piece.bytes, { stream: true })).split('\n');
      this.#rest = (lines.pop() ?? '').slice(-LONGEST_LINE);
      if (skipped === null) for (const line of lines) yield this.#line(line);
      else skipped = this.#newest([...skipped, ...lines], over);
      if (piece.bytes.length === 0) break;
    }
    for (const line of skipped ?? []) yield this.#line(line);
    if (over && this.#rest !== '') {
      yield this.#line(this.#rest);
      this.#rest = '';
    }
  }

  /** The unfinished last line counts too when nothing more will come. */
  #newest(lines: string[], over: boolean): string[] {
    const wanted = (this.#tail ?? 0) - (over && this.#rest !== '' ? 1 : 0);
    return wanted <= 0 ? [] : lines.slice(-wanted);
  }

  #line(text: string): LogLine {
    return { task: this.#source.task, containerId: this.#source.containerId, file: this.#file, text: text.replace(/\r$/, '') };
  }
}
