import type { JobStatus, TaskState } from '../../../../conf/status/status.ts';
import { type Content, html } from './html.ts';

type AnyState = JobStatus['state'] | TaskState;

const TONES: Readonly<Record<AnyState, 'wait' | 'run' | 'warn' | 'good' | 'bad' | 'calm'>> = {
  STARTING: 'wait',
  WAITING: 'wait',
  RUNNING: 'run',
  RECOVERING: 'warn',
  SUCCEEDED: 'good',
  FAILED: 'bad',
  KILLED: 'calm',
  requested: 'wait',
  launching: 'wait',
  registered: 'wait',
  running: 'run',
  succeeded: 'good',
  failed: 'bad',
  lost: 'bad',
  stopped: 'calm',
};

export function toneOf(state: AnyState): string {
  return TONES[state] ?? 'calm';
}

export function stateBadge(state: AnyState, text: string = state.toLowerCase()): Content {
  return html`<span class=${`badge ${toneOf(state)}`}><span class="dot" aria-hidden="true"></span>${text}</span>`;
}
