import { oneLine } from './state/diagnostics.ts';
import type { Event } from './state/events.ts';
import { LIMITS } from './state/job-state.ts';
import type { Transition } from './state/transition.ts';

/** Value of `about` in notices about delegation tokens. These notices concern the whole job, so their `task` is empty. */
const ABOUT = 'tokens';

/** Records a report about the delegation tokens. The report's notice replaces the previous one. */
export function tokensReported(transition: Transition, { event, detail, notice }: Extract<Event, { type: 'tokens' }>): void {
  transition.record(event, { detail: oneLine(detail) });
  const others = transition.state.training.notices.filter(({ task, about }) => task !== '' || about !== ABOUT);
  const notices = notice === null ? others : [...others, { task: '', text: oneLine(notice), about: ABOUT }];
  transition.patchTraining({ notices: notices.slice(-LIMITS.notices) });
}
