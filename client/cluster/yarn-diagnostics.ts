import { earlyEndIn } from '../../conf/status/early-end.ts';
import type { JobResult, JobState } from '../../conf/status/status.ts';
import { unusableFile } from '../../hadoop/yarn/container-exit.ts';

/** Returns the state of a job whose ApplicationMaster has not reported. */
export function jobStateOf(application: Pick<EndedApplication, 'state' | 'finalStatus'>): JobState {
  switch (application.state) {
    case 'NEW':
    case 'NEW_SAVING':
    case 'SUBMITTED':
      return 'submitted';
    case 'ACCEPTED':
      return 'waiting';
    case 'RUNNING':
      return 'running';
    default:
      return finalState(application);
  }
}

export interface EndedApplication {
  readonly id: string;
  readonly state: string;
  readonly finalStatus: string;
  readonly diagnostics: string;
}

const DIAGNOSTICS_MAXIMUM = 4000;
/** YARN's message about an application that a client has killed: the user, the client's address, and the reason that the client gave. */
const KILLED_BY_USER = /^Application \S+ was killed by user (\S+?)(?: at (\S+?))?(?: with diagnostic message: (.*))?$/s;

/** Returns a job's result, given its ended YARN application. Replaces YARN's diagnostics with a clearer message where possible. */
export function resultOf(application: EndedApplication): JobResult {
  const state = finalState(application);
  return { state, message: state === 'succeeded' ? earlyEndIn(application.diagnostics) : explain(application) };
}

function finalState({ state, finalStatus }: Pick<EndedApplication, 'state' | 'finalStatus'>): JobResult['state'] {
  if (state === 'KILLED' || finalStatus === 'KILLED') {
    return 'killed';
  }
  return state === 'FINISHED' && finalStatus === 'SUCCEEDED' ? 'succeeded' : 'failed';
}

/** Returns the queue name if YARN's message says that the queue does not exist, or undefined for any other message. */
export function unknownQueue(diagnostics: string): string | undefined {
  return /submitted by user \S+ to (?:unknown|non-?existent) queue:?\s*(\S+?)\.?\s*$/im.exec(diagnostics)?.[1];
}

function explain({ id, state, diagnostics }: EndedApplication): string {
  const text = diagnostics.trim();
  const queue = unknownQueue(text);
  if (queue !== undefined) {
    return `The queue ${queue} does not exist. Correct \`queue\` in job.yaml.`;
  }
  if (/cannot submit applications to queue|does not have permission to submit/i.test(text)) {
    return `${firstSentence(text)} Ask for access to the queue, or name another one in job.yaml.`;
  }
  if (/queue .*(stopped|draining)|is STOPPED/i.test(text) && state === 'FAILED') {
    return `${firstSentence(text)} Name another queue in job.yaml, or ask the cluster admin to start this queue.`;
  }
  const killed = KILLED_BY_USER.exec(text);
  if (killed !== null) {
    const [, user = '', address, reason = ''] = killed;
    return /^(?:Killed|Interrupted) by /.test(reason)
      ? reason
      : `Killed by ${user}${address === undefined ? '' : ` from ${address}`}${reason === '' ? '.' : `: ${reason}`}`;
  }
  if (text.startsWith('Failed to renew token: ')) {
    return tokenNotRenewed(text);
  }
  if (/^Application application_\S+ failed \d+ times/m.test(text)) {
    return masterFailed(id, text);
  }
  return shorten(text) || `YARN does not report why the application is ${state}.`;
}

function tokenNotRenewed(text: string): string {
  const [, kind = 'a service', service = ''] = /Kind: ([^,]+), Service: ([^,]*)/.exec(text) ?? [];
  const renewer = /\brenewer=([^,)]+)/.exec(text)?.[1];
  const of = renewer === undefined ? '' : `, which names ${renewer} as its renewer`;
  return (
    `The ResourceManager cannot renew the token ${kind} for ${service}${of}. It can renew only valid tokens that name the ` +
    "ResourceManager's own user as their renewer. Submit the job with a Kerberos ticket, or with new tokens: " +
    'hdfs fetchdt --renewer yarn FILE.'
  );
}

function masterFailed(id: string, text: string): string {
  const logs = `See tony-ts logs ${id} master.`;
  if (/ApplicationMaster for attempt \S+ timed out/i.test(text)) {
    return `The ApplicationMaster stopped sending heartbeats, so YARN ended it. ${logs}`;
  }
  const exit = /exited with\s+exitCode:\s*(-?\d+)/.exec(text)?.[1];
  const cause = shorten([...writtenToStderr(text), ...localisation(text)].join('\n'));
  const how = exit === undefined ? '' : ` (exit code ${exit}${meaning(exit)})`;
  return `The ApplicationMaster failed to run${how}${cause === '' ? '. ' : `:\n${cause}\n`}${logs}`;
}

/**
 * Returns the excerpts of stderr and similar files in the NodeManager's diagnostics, without duplicates. Each excerpt follows a `Last ...
 * bytes of` line and ends at an empty line.
 */
function writtenToStderr(text: string): string[] {
  const quotes: string[][] = [];
  let quote: string[] | null = null;
  for (const line of text.split('\n')) {
    if (/^Last \d+ bytes of \S+\s*:/.test(line)) {
      quote = [];
      quotes.push(quote);
    } else if (line.trim() === '' || line.startsWith('For more detailed output')) {
      quote = null;
    } else {
      quote?.push(line.trimEnd());
    }
  }
  return [...new Set(quotes.map((lines) => lines.join('\n')))].filter((lines) => lines !== '');
}

function meaning(exit: string): string {
  switch (exit) {
    case '127':
      return ': a program was not found on the node';
    case '137':
      return ': killed, often for lack of memory';
    case '-103':
    case '-104':
      return ': it used more memory than its container has; raise master.resources.memory in job.yaml';
    case '-1000':
      return ': YARN could not copy its files to the node';
    default:
      return '';
  }
}

function localisation(text: string): string[] {
  const line = /^.*(?:changed on src filesystem|FileNotFoundException|AccessControlException|Permission denied).*$/m.exec(text)?.[0];
  if (line === undefined) {
    return [];
  }
  const missing = unusableFile(line);
  return missing === null ? [line.trim()] : [line.trim(), missing];
}

function firstSentence(text: string): string {
  const line = text.split('\n')[0]?.trim() ?? '';
  return /[.!?]$/.test(line) ? line : `${line}.`;
}

function shorten(text: string): string {
  const kept = text
    .split('\n')
    .filter((line) => !/^\s+at [\w.$]+\(/.test(line))
    .join('\n')
    .trim();
  // The cause of a failure is usually at the end of the message.
  return kept.length <= DIAGNOSTICS_MAXIMUM ? kept : `…${kept.slice(-DIAGNOSTICS_MAXIMUM)}`;
}

/**
 * Returns the reason why an application is waiting for its ApplicationMaster's container. Omits YARN's resource tables.
 * @param shortage the missing resources, from `MasterShortages`
 */
export function waitingReason(diagnostics: string, shortage: string | null = null): string {
  const line = diagnostics
    .replace(/^\[[^\]]*\]\s*/, '')
    .split(/\n|Details\s*:|Last Node which was processed/)[0]
    ?.trim();
  return shortage === null ? (line ?? '') : `${(line ?? '').replace(/\.$/, '')}: ${shortage}.`;
}

/**
 * Returns the label of the nodes whose resources the ApplicationMaster's container is waiting for, or '' for nodes without a label. Returns
 * null if the application is not waiting for resources, or if the cluster does not use the Capacity Scheduler.
 */
export function awaitedPartition(diagnostics: string): string | null {
  if (!/Application is Activated, waiting for resources/.test(diagnostics)) {
    return null;
  }
  const label = /Details\s*:\s*AM Partition = ([^;]*);/.exec(diagnostics)?.[1]?.trim();
  return label === undefined ? null : label === '<DEFAULT_PARTITION>' ? '' : label;
}
