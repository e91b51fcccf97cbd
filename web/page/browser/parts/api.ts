import { withMilliseconds } from '../../../../conf/status/api-object.ts';

/** The default request deadline, in ms. A busy ApplicationMaster may need several seconds to respond. */
const DEADLINE_MS = 15_000;

/** The URL of `tony/`: the script is in `tony/assets/`, and the API is at `tony/api/v1/`. */
const TONY = new URL('../', import.meta.url);

/** TensorBoard is at the tracking URL, one folder above `tony/`. */
export const TENSORBOARD_URL = new URL('../../', TONY).href;

/**
 * `silent`: no response before the deadline. `unreachable`: no connection, or a response from another server. `moved`: the gateway
 * redirects to another URL, because the job has ended or its ApplicationMaster is restarting. `refused`: the user may not view the job.
 * `missing`: the resource does not exist. `failed`: the server cannot provide the resource at the moment.
 */
export type ProblemKind = 'silent' | 'unreachable' | 'moved' | 'refused' | 'missing' | 'failed';

export class ApiError extends Error {
  readonly kind: ProblemKind;

  constructor(kind: ProblemKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The server's clock minus the browser's clock, in ms. The page computes durations with the server's clock. */
let clockOffset = 0;

export function serverNow(): number {
  return Date.now() + clockOffset;
}

/** Requests an object. Its times are converted to ms since the epoch. */
export async function getJson<T>(
  resource: string,
  query: Readonly<Record<string, string | number>> = {},
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const url = new URL(`api/v1/${resource}`, TONY);
  for (const [name, value] of Object.entries(query)) {
    url.searchParams.set(name, String(value));
  }
  const response = await answerOf(url, deadlineMs);
  if (response.type === 'opaqueredirect') {
    throw new ApiError('moved', "The job's URL now redirects to another page.");
  }
  if (response.status === 401 || response.status === 403) {
    throw new ApiError('refused', (await sentenceOf(response)) ?? 'You may not view this job.');
  }
  if (!response.ok) {
    const sentence = await sentenceOf(response);
    // Only the API sends an error message, so a response without a message comes from a gateway.
    if (sentence === null) {
      throw new ApiError('unreachable', `${`The server returned HTTP ${response.status} ${response.statusText}`.trim()}.`);
    }
    throw new ApiError(response.status === 404 ? 'missing' : 'failed', sentence);
  }
  if (!isJson(response)) {
    throw new ApiError('unreachable', 'Another server responded.');
  }
  learnClock(response);
  try {
    return withMilliseconds(await response.json()) as T;
  } catch {
    throw new ApiError('unreachable', 'The response was incomplete.');
  }
}

async function answerOf(url: URL, deadlineMs: number): Promise<Response> {
  try {
    return await fetch(url, { redirect: 'manual', cache: 'no-store', signal: AbortSignal.timeout(deadlineMs) });
  } catch (error) {
    const late = error instanceof DOMException && error.name === 'TimeoutError';
    throw late ? new ApiError('silent', `No response within ${deadlineMs / 1000} s.`) : new ApiError('unreachable', 'No connection.');
  }
}

function isJson(response: Response): boolean {
  return (response.headers.get('content-type') ?? '').startsWith('application/json');
}

async function sentenceOf(response: Response): Promise<string | null> {
  try {
    if (isJson(response)) {
      return ((await response.json()) as { message?: string }).message ?? null;
    }
    const isText = (response.headers.get('content-type') ?? '').startsWith('text/plain');
    return isText ? (await response.text()).trim().slice(0, 500) || null : null;
  } catch {
    return null;
  }
}

/** Adjusts the clock offset. Ignores differences below two seconds, because the Date header has a resolution of one second. */
function learnClock(response: Response): void {
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isFinite(date)) {
    return;
  }
  const offset = date + 500 - Date.now();
  clockOffset = Math.abs(offset) < 2_000 ? 0 : offset;
}
