import type { JobResult } from '../conf/status.ts';

/** What the ResourceManager says of an application that has ended, as far as the result depends on it. */
export interface EndedApplication {
  readonly id: string;
  readonly state: string;
  readonly finalStatus: string;
  readonly diagnostics: string;
}

const DIAGNOSTICS_MAXIMUM = 4000;

/** YARN's final status is the truth about a job's end; its diagnostics are put into words where YARN's own do not help. */
export function resultOf(application: EndedApplication): JobResult {
  const state = finalState(application);
  return { state, diagnostics: state === 'SUCCEEDED' ? earlyEnd(application) : explain(application) };
}

/** The ApplicationMaster's own word; YARN may have said something before it, as that the application was recovered. */
function earlyEnd({ diagnostics }: EndedApplication): string {
  return /stopped early at step \d+: .*/.exec(diagnostics)?.[0].trim() ?? '';
}

function finalState({ state, finalStatus }: EndedApplication): JobResult['state'] {
  if (state === 'KILLED' || finalStatus === 'KILLED') return 'KILLED';
  return state === 'FINISHED' && finalStatus === 'SUCCEEDED' ? 'SUCCEEDED' : 'FAILED';
}

/** The queue that does not exist, when that is what the ResourceManager complains of. */
export function unknownQueue(diagnostics: string): string | undefined {
  return /submitted by user \S+ to (?:unknown|non-?existent) queue:?\s*(\S+?)\.?\s*$/im.exec(diagnostics)?.[1];
}

function explain({ id, state, diagnostics }: EndedApplication): string {
  const text = diagnostics.trim();
  const queue = unknownQueue(text);
  if (queue !== undefined) return `The queue ${queue} does not exist. Correct \`queue\` in job.yaml.`;
  if (/cannot submit applications to queue|does not have permission to submit/i.test(text)) {
    return `${firstSentence(text)} Ask for access to the queue, or name another one in job.yaml.`;
  }
  if (/queue .*(stopped|draining)|is STOPPED/i.test(text) && state === 'FAILED') {
    return `${firstSentence(text)} Name another queue in job.yaml, or have this one started.`;
  }
  if (/^Application application_\S+ failed \d+ times/m.test(text)) return masterFailed(id, text);
  return shorten(text) || `YARN says nothing about why the application is ${state}.`;
}

/** The ApplicationMaster itself ended, twice: what matters is buried between YARN's own lines. */
function masterFailed(id: string, text: string): string {
  const logs = `See tony-ts logs ${id} master.`;
  const timedOut = /timed out/i.test(text) && /ApplicationMaster for attempt \S+ timed out/i.test(text);
  if (timedOut) return `The ApplicationMaster fell silent and YARN gave it up. ${logs}`;
  const exit = /exited with\s+exitCode:\s*(-?\d+)/.exec(text)?.[1];
  const cause = shorten([...writtenToStderr(text), ...localisation(text)].join('\n'));
  const how = exit === undefined ? '' : ` (exit code ${exit}${meaning(exit)})`;
  return `The ApplicationMaster could not run${how}${cause === '' ? '. ' : `:\n${cause}\n`}${logs}`;
}

/** The NodeManager quotes the ends of error files, each under a line of its own and up to an empty one, the same one sometimes twice. */
function writtenToStderr(text: string): string[] {
  const quotes: string[][] = [];
  let quote: string[] | null = null;
  for (const line of text.split('\n')) {
    if (/^Last \d+ bytes of \S+\s*:/.test(line)) {
      quote = [];
      quotes.push(quote);
    } else if (line.trim() === '' || line.startsWith('For more detailed output')) quote = null;
    else quote?.push(line.trimEnd());
  }
  return [...new Set(quotes.map((lines) => lines.join('\n')))].filter((lines) => lines !== '');
}

function meaning(exit: string): string {
  switch (exit) {
    case '127':
      return ': a program was not found on the node';
    case '137':
      return ': killed, often for want of memory';
    case '-103':
    case '-104':
      return ': more memory than its container has; raise master.memory in job.yaml';
    case '-1000':
      return ': its files could not be fetched';
    default:
      return '';
  }
}

function localisation(text: string): string[] {
  const line = /^.*(?:changed on src filesystem|FileNotFoundException|AccessControlException|Permission denied).*$/m.exec(text)?.[0];
  return line === undefined ? [] : [line.trim()];
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
  // The cause of a failing program stands at the end of what it wrote.
  return kept.length <= DIAGNOSTICS_MAXIMUM ? kept : `…${kept.slice(-DIAGNOSTICS_MAXIMUM)}`;
}

/** While an application waits for its ApplicationMaster: the reason, without YARN's tables. */
export function waitingReason(diagnostics: string): string {
  const line = diagnostics
    .replace(/^\[[^\]]*\]\s*/, '')
    .split(/\n|Details\s*:/)[0]
    ?.trim();
  return line ?? '';
}
