import { formatDuration } from '../conf/units.ts';
import { hostOf, oneLine } from './job-table.ts';
import type { Casualties, KillReport } from './kill-job.ts';
import { clip, type Terminal, wrap } from './terminal.ts';

const NODES_NAMED = 8;
const MOST_LINES = 12;
const INDENT = '  ';

interface Tense {
  readonly has: string;
  readonly are: string;
}

/** Before it is done: what will end. */
export function casualtyLines(casualties: Casualties, terminal: Terminal): string[] {
  const { applicationId, name, state } = casualties;
  const head = [applicationId, oneLine(name), state].filter((part) => part !== '').join('  ');
  return [clip(head, Math.max(20, terminal.columns - 1)), ...factLines(casualties, terminal, { has: 'has', are: 'would be' })];
}

/** After it was done: what has ended, in the same words. */
export function killedLines({ killed, casualties, observation }: KillReport, terminal: Terminal): string[] {
  const { applicationId, name, running, tasks } = casualties;
  const { result } = observation;
  if (!killed) return [`${applicationId} had ended already${result === null ? '' : `: ${result.state}`}`];
  const what = tasks === 0 ? '' : ` (${oneLine(name)}, ${running} of ${tasks} tasks were running)`;
  return [`killed ${applicationId}${what}`, ...factLines(casualties, terminal, { has: 'had', are: 'are' })];
}

function factLines(casualties: Casualties, terminal: Terminal, tense: Tense): string[] {
  const facts = [rolesText(casualties), timeText(casualties, tense), stepsText(casualties, tense)].filter((fact) => fact !== '');
  const width = Math.max(20, terminal.columns - 1 - INDENT.length);
  return facts.flatMap((fact) => wrap(fact, width, MOST_LINES).map((line) => `${INDENT}${line}`));
}

/** `2 worker on node1, node2; 1 ps on node1` */
function rolesText({ roles }: Casualties): string {
  if (roles.length === 0) return 'no task has a container';
  return roles
    .map(({ role, tasks, nodes }) => {
      const named = [...new Set(nodes.map(hostOf).map(oneLine))];
      const more = named.length > NODES_NAMED ? ` and ${named.length - NODES_NAMED} more nodes` : '';
      return `${tasks} ${oneLine(role)}${named.length === 0 ? '' : ` on ${named.slice(0, NODES_NAMED).join(', ')}${more}`}`;
    })
    .join('; ');
}

function timeText({ ranMs }: Casualties, { has }: Tense): string {
  return ranMs === null ? '' : `it ${has} run for ${formatDuration(ranMs < 1000 ? ranMs : 1000 * Math.round(ranMs / 1000))}`;
}

function stepsText({ step, checkpointStep, stepsLost }: Casualties, { are }: Tense): string {
  if (checkpointStep > 0) {
    const since = stepsLost === 0 ? 'nothing since' : `${stepsLost} ${stepsLost === 1 ? 'step' : 'steps'} since ${are} lost`;
    return `newest checkpoint: step ${checkpointStep}, ${since}`;
  }
  return step === 0 ? '' : `no checkpoint: all ${step} steps ${are} lost`;
}
