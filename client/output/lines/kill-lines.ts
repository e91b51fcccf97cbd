import { isEndState } from '../../../conf/status/status.ts';
import { counted } from '../../../conf/values/quantities.ts';
import { formatDuration } from '../../../conf/values/units.ts';
import type { KillImpact, KillReport } from '../../connections/operations/kill-job.ts';
import { clip, oneLine, type Terminal, wrap } from '../../terminal/terminal.ts';
import { nodeName } from './job-table.ts';

const NODES_NAMED = 8;
const MOST_LINES = 12;
const INDENT = '  ';

interface Tense {
  readonly has: string;
  readonly are: string;
}

export function killImpactLines(impact: KillImpact, terminal: Terminal): string[] {
  const { id, name, state } = impact;
  const head = [id, oneLine(name), state].filter((part) => part !== '').join('  ');
  return [clip(head, Math.max(20, terminal.columns - 1)), ...factLines(impact, terminal, { has: 'has', are: 'would be' })];
}

export function killedLines({ killed, impact }: KillReport, terminal: Terminal): string[] {
  const { id, name, state, tasksRunning, tasksTotal } = impact;
  if (!killed) {
    return [`${id} had already ended${isEndState(state) ? `: ${state}` : ''}`];
  }
  const what = tasksTotal === 0 ? '' : ` (${oneLine(name)}, ${tasksRunning} of ${tasksTotal} tasks were running)`;
  return [`killed ${id}${what}`, ...factLines(impact, terminal, { has: 'had', are: 'are' })];
}

function factLines(impact: KillImpact, terminal: Terminal, tense: Tense): string[] {
  const facts = [rolesText(impact), timeText(impact, tense), stepsText(impact, tense)].filter((fact) => fact !== '');
  const width = Math.max(20, terminal.columns - 1 - INDENT.length);
  return facts.flatMap((fact) => wrap(fact, width, MOST_LINES).map((line) => `${INDENT}${line}`));
}

/** Formats each role's tasks, such as `2 worker on node1, node2; 1 ps on node1`. */
function rolesText({ roles, tasksTotal, state }: KillImpact): string {
  if (tasksTotal === 0 && state === 'running') {
    return 'the ApplicationMaster does not answer, so the state of its tasks is unknown';
  }
  if (roles.length === 0) {
    return 'no task has a container';
  }
  return roles
    .map(({ role, tasks, nodes }) => {
      const rows = roles.flatMap((each) => each.nodes).map((node) => ({ node }));
      const named = [...new Set(nodes.map((node) => oneLine(nodeName(node, rows))))];
      const more = named.length > NODES_NAMED ? ` and ${named.length - NODES_NAMED} more nodes` : '';
      return `${tasks} ${oneLine(role)}${named.length === 0 ? '' : ` on ${named.slice(0, NODES_NAMED).join(', ')}${more}`}`;
    })
    .join('; ');
}

function timeText({ ranMs }: KillImpact, { has }: Tense): string {
  return ranMs === null ? '' : `the job ${has} taken ${formatDuration(ranMs < 1000 ? ranMs : 1000 * Math.round(ranMs / 1000))}`;
}

function stepsText({ step, checkpointStep, stepsLost }: KillImpact, { are }: Tense): string {
  if (checkpointStep > 0) {
    const since = stepsLost === 0 ? 'nothing since' : `${counted(stepsLost, 'step')} since ${are} lost`;
    return `newest checkpoint: step ${checkpointStep}, ${since}`;
  }
  return step === 0 ? '' : `no checkpoint: all ${step} steps ${are} lost`;
}
