import type { JobInfo } from '../../../../conf/status/job-info.ts';
import type { TaskState } from '../../../../conf/status/status.ts';
import { type Content, html } from './html.ts';

type AnyState = JobInfo['state'] | TaskState;

const TONES: Readonly<Record<AnyState, 'wait' | 'run' | 'warn' | 'good' | 'bad' | 'calm'>> = {
  submitted: 'wait',
  starting: 'wait',
  waiting: 'wait',
  recovering: 'warn',
  killed: 'calm',
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

export function stateBadge(state: AnyState, text: string = state): Content {
  return html`<span class=${`badge ${toneOf(state)}`}><span class="dot" aria-hidden="true"></span>${text}</span>`;
}
