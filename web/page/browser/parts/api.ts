/** Longer than the slowest response of a busy ApplicationMaster, but short enough for a user who waits. */
const DEADLINE_MS = 15_000;

/** The script is at `<tony>/assets/` and the API at `<tony>/api/`; the prefix before that is set by the proxy. */
const TONY = new URL('../', import.meta.url);

/** TensorBoard is at the tracking URL, one folder up. */
export const TENSORBOARD_URL = new URL('../../', TONY).href;

/**
 * `silent`: the deadline passed. `unreachable`: no connection, or another server answered. `moved`: the gateway redirects elsewhere,
 * because the job has ended or its ApplicationMaster is restarting. `refused`: the user may not view the job. `missing`: the resource does
 * not exist. `failed`: the job answers but cannot provide this resource at the moment.
 */
export type ProblemKind = 'silent' | 'unreachable' | 'moved' | 'refused' | 'missing' | 'failed';

export class ApiError extends Error {
  readonly kind: ProblemKind;

  constructor(kind: ProblemKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The server's clock minus this machine's, ms: durations are computed with the server's time. */
let clockOffset = 0;

export function serverNow(): number {
  return Date.now() + clockOffset;
}

/** @throws ApiError */
export async function getJson<T>(
  resource: string,
  query: Readonly<Record<string, string | number>> = {},
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const url = new URL(`api/${resource}`, TONY);
  for (const [name, value] of Object.entries(query)) {
    url.searchParams.set(name, String(value));
  }
  const response = await answerOf(url, deadlineMs);
  if (response.type === 'opaqueredirect') {
    throw new ApiError('moved', "The job's address now leads elsewhere.");
  }
  if (response.status === 401 || response.status === 403) {
    throw new ApiError('refused', (await sentenceOf(response)) ?? 'You may not view this job.');
  }
  if (!response.ok) {
    const sentence = await sentenceOf(response);
    // A response without the API's error text comes from a gateway.
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
    return (await response.json()) as T;
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

/** Returns the error text of the job's own server; null if it has none. */
async function sentenceOf(response: Response): Promise<string | null> {
  try {
    if (isJson(response)) {
      return ((await response.json()) as { error?: string }).error ?? null;
    }
    const isText = (response.headers.get('content-type') ?? '').startsWith('text/plain');
    return isText ? (await response.text()).trim().slice(0, 500) || null : null;
  } catch {
    return null;
  }
}

/** The Date header has whole seconds: differences below two seconds are ignored. */
function learnClock(response: Response): void {
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isFinite(date)) {
    return;
  }
  const offset = date + 500 - Date.now();
  clockOffset = Math.abs(offset) < 2_000 ? 0 : offset;
}
