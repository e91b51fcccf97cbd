/** Longer than the slowest answer of a busy master, shorter than a person's patience. */
const DEADLINE_MS = 15_000;

/** The script is at `<tony>/assets/`, what it asks is at `<tony>/api/`: whatever stands before is the proxy's affair. */
const TONY = new URL('../', import.meta.url);

/** TensorBoard is where the tracking URL leads, the folder above. */
export const TENSORBOARD_URL = new URL('../', TONY).href;

/**
 * `unreachable`: nobody answers, or somebody in between does. `moved`: whoever stands in between leads elsewhere: the job has ended, or its
 * ApplicationMaster is just being started again. `refused`: this person may not look. `missing`: there is no such thing. `failed`: the job
 * answers, but cannot say this now.
 */
export type ProblemKind = 'unreachable' | 'moved' | 'refused' | 'missing' | 'failed';

export class ApiError extends Error {
  readonly kind: ProblemKind;

  constructor(kind: ProblemKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The server's clock less this one's, ms: durations are reckoned by the server's. */
let clockOffset = 0;

export function serverNow(): number {
  return Date.now() + clockOffset;
}

/** @throws ApiError */
export async function getJson<T>(resource: string, query: Readonly<Record<string, string | number>> = {}): Promise<T> {
  const url = new URL(`api/${resource}`, TONY);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  const response = await answerOf(url);
  if (response.type === 'opaqueredirect') throw new ApiError('moved', 'The address leads elsewhere by now.');
  if (response.status === 401 || response.status === 403) {
    throw new ApiError('refused', (await sentenceOf(response)) ?? 'You may not view this job.');
  }
  if (!response.ok) {
    const sentence = await sentenceOf(response);
    // Without a sentence of ours it was somebody in between who answered.
    if (sentence === null) throw new ApiError('unreachable', `The answer was ${response.status} ${response.statusText}`.trim());
    throw new ApiError(response.status === 404 ? 'missing' : 'failed', sentence);
  }
  if (!isJson(response)) throw new ApiError('unreachable', 'Something else answered.');
  learnClock(response);
  try {
    return (await response.json()) as T;
  } catch {
    throw new ApiError('unreachable', 'The answer broke off.');
  }
}

async function answerOf(url: URL): Promise<Response> {
  try {
    return await fetch(url, { redirect: 'manual', cache: 'no-store', signal: AbortSignal.timeout(DEADLINE_MS) });
  } catch (error) {
    const late = error instanceof DOMException && error.name === 'TimeoutError';
    throw new ApiError('unreachable', late ? `No answer within ${DEADLINE_MS / 1000} s.` : 'No connection.');
  }
}

function isJson(response: Response): boolean {
  return (response.headers.get('content-type') ?? '').startsWith('application/json');
}

/** What the job's own server says about it. */
async function sentenceOf(response: Response): Promise<string | null> {
  try {
    if (isJson(response)) return ((await response.json()) as { error?: string }).error ?? null;
    const isText = (response.headers.get('content-type') ?? '').startsWith('text/plain');
    return isText ? (await response.text()).trim().slice(0, 500) || null : null;
  } catch {
    return null;
  }
}

/** The header counts whole seconds: less than two are no difference. */
function learnClock(response: Response): void {
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isFinite(date)) return;
  const offset = date + 500 - Date.now();
  clockOffset = Math.abs(offset) < 2_000 ? 0 : offset;
}
