import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type ApiKind, apiObject, errorObject } from '../conf/status/api-object.ts';
import { withTimeout } from '../platform/async/deadline.ts';
import { type ErrorCode, TonyError } from '../platform/errors.ts';
import type { JobView, LogName, LogTail, ScalarCharts, ScalarSeries } from './job-view.ts';
import { HttpError } from './server/answer.ts';

/** An API response: a JSON object with `apiVersion` and `kind`, which is `Error` unless the status is 200. */
export interface ApiAnswer {
  readonly status: number;
  readonly body: Buffer;
  readonly gzip?: Buffer;
}

type Query = URLSearchParams;

interface Resource {
  readonly kind: ApiKind;
  readonly read: (view: JobView, query: Query) => Promise<unknown>;
  /** Converts what the view returns to the fields of the response. */
  readonly fields?: (read: never) => object;
}

/** The minimum size in bytes at which a response is compressed. Compressing a smaller response takes more time than sending it. */
const WORTH_COMPRESSING = 8192;
/** How long identical queries share one response, in ms. Because of this, the load does not depend on the number of viewers. */
const SHARED_MS = 250;
const MAX_SHARED = 64;
/** The deadline for one resource, in ms. It allows for reading an ended job's resources from storage. */
const DEADLINE_MS = 30_000;
const DEFAULT_TAIL = 64 << 10;
const MAX_TAIL = 1 << 20;
const LOG_FILES: readonly LogName[] = ['stdout', 'stderr', 'tony.log'];
const TASK = /^(?:master|container_\w{1,100}|[A-Za-z][\w-]{0,99}:\d{1,6})$/;

const RESOURCES: Readonly<Record<string, Resource>> = {
  job: { kind: 'Job', read: (view) => view.status() },
  configuration: { kind: 'Configuration', read: (view) => view.configuration(), fields: (configuration: unknown) => ({ configuration }) },
  events: { kind: 'EventList', read: (view, query) => view.events(whole(query, 'after', 0)) },
  usage: { kind: 'UsageList', read: (view, query) => view.usage(whole(query, 'after', 0)) },
  scalars: { kind: 'ScalarCharts', read: (view) => view.scalars(), fields: scalarFields },
  log: { kind: 'LogTail', read: readLog },
};

async function readLog(view: JobView, query: Query): Promise<LogTail> {
  const task = query.get('task') ?? '';
  const file = (query.get('file') ?? 'stderr') as LogName;
  if (!TASK.test(task)) {
    throw new HttpError(400, '`task` must be a task, such as `worker:0`, or `master`.');
  }
  if (!LOG_FILES.includes(file)) {
    throw new HttpError(400, `\`file\` must be one of ${LOG_FILES.join(', ')}.`);
  }
  const log = await view.log(task, file, Math.min(MAX_TAIL, Math.max(1, whole(query, 'tail', DEFAULT_TAIL))));
  if (log === null) {
    throw new HttpError(404, `There is no ${file} for ${task}.`);
  }
  return log;
}

/** The summaries contain times in seconds since the epoch. */
function scalarFields({ runs, message }: ScalarCharts): object {
  const series = (one: ScalarSeries) => ({ ...one, times: one.times.map((seconds) => new Date(seconds * 1000).toISOString()) });
  return { runs: runs.map(({ name, scalars }) => ({ name, scalars: scalars.map(series) })), message };
}
/** The query parameters that affect the response. The API ignores all other parameters, because gateways may add parameters. */
const PARAMETERS = ['after', 'task', 'file', 'tail'];

export class Api {
  readonly #view: JobView;
  readonly #shared = new Map<string, { readonly at: number; readonly answer: Promise<ApiAnswer> }>();
  /** Serialised responses, keyed by the object that the view returned. A view returns the same object until its data changes. */
  readonly #serialised = new WeakMap<object, Promise<ApiAnswer>>();

  constructor(view: JobView) {
    this.#view = view;
  }

  get(name: string, query: Query): Promise<ApiAnswer> {
    const resource = Object.hasOwn(RESOURCES, name) ? RESOURCES[name] : undefined;
    if (resource === undefined) {
      return Promise.resolve(failure(404, `There is no resource ${name.slice(0, 100)}.`));
    }
    const key = [name, ...PARAMETERS.map((each) => query.get(each)?.slice(0, 200) ?? '')].join('\n');
    const shared = this.#shared.get(key);
    if (shared !== undefined && performance.now() - shared.at < SHARED_MS) {
      return shared.answer;
    }
    const answer = this.#answer(resource, query);
    this.#shared.delete(key);
    this.#shared.set(key, { at: performance.now(), answer });
    for (const [oldest, { at }] of this.#shared) {
      if (this.#shared.size <= MAX_SHARED && performance.now() - at < SHARED_MS) {
        break;
      }
      this.#shared.delete(oldest);
    }
    return answer;
  }

  async #answer(resource: Resource, query: Query): Promise<ApiAnswer> {
    try {
      const value = await withTimeout(resource.read(this.#view, query), DEADLINE_MS, () => {
        throw new HttpError(504, 'Reading this resource takes too long: try again.');
      });
      if (typeof value !== 'object' || value === null) {
        return await serialised(resource, value);
      }
      const known = this.#serialised.get(value) ?? serialised(resource, value);
      this.#serialised.set(value, known);
      return await known;
    } catch (error) {
      if (error instanceof HttpError) {
        return failure(error.status, error.message);
      }
      // A TonyError's message is intended for users. Any other error is a bug, and viewers do not see its message.
      if (error instanceof TonyError) {
        return failed(error.code === 'NOT_FOUND' ? 404 : 503, error);
      }
      return failure(500, 'This resource could not be read.');
    }
  }
}

async function serialised({ kind, fields }: Resource, value: unknown): Promise<ApiAnswer> {
  const object = fields === undefined ? (value as object) : fields(value as never);
  const body = Buffer.from(JSON.stringify(apiObject(kind, object)));
  if (body.length < WORTH_COMPRESSING) {
    return { status: 200, body };
  }
  return { status: 200, body, gzip: await promisify(gzip)(body, { level: 5 }) };
}

/** Error codes for failures that the server finds itself. */
const CODES: Readonly<Record<number, ErrorCode>> = { 400: 'USAGE', 404: 'NOT_FOUND', 504: 'HDFS_UNREACHABLE' };

function failure(status: number, message: string): ApiAnswer {
  return failed(status, new TonyError(CODES[status] ?? 'INTERNAL', message, { hint: '' }));
}

function failed(status: number, error: TonyError): ApiAnswer {
  return { status, body: Buffer.from(JSON.stringify(errorObject(error))) };
}

function whole(query: Query, name: string, otherwise: number): number {
  const text = query.get(name);
  if (text === null) {
    return otherwise;
  }
  if (!/^\d{1,15}$/.test(text)) {
    throw new HttpError(400, `\`${name}\` must be a whole number.`);
  }
  return Number(text);
}
