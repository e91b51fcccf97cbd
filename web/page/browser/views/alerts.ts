import { describeFailure } from '../../../../conf/status/event-text.ts';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { jobMessage } from '../../../../conf/status/job-message.ts';
import { awaitedRoles } from '../../../../conf/status/status.ts';
import type { FirstFailure } from '../../../../conf/status/task-failure.ts';
import { formatAgo, formatElapsed } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import { isOver } from '../parts/job-resources.ts';
import { plainText } from '../parts/plain-text.ts';
import type { Reading } from '../parts/polled-resource.ts';
import { formatRoute } from '../parts/route.ts';
import { nameOf } from './task-table.ts';

/** The messages at the top of the page: the job's failure and its final message. */
export function alerts(status: JobInfo): Content {
  const { failure, message } = status;
  if (failure === null) {
    return message !== '' && messageCard(status);
  }
  const sentence = describeFailure(failure, failure.role);
  const [head = ''] = message.split('\n');
  // If the job's message contains the first failure, one card with this message is enough.
  const { failedTask } = status;
  const isSame = failedTask !== null && nameOf(failedTask) === nameOf(failure) && isNewest(failure, status);
  return html`
    ${failureCard(failure, isSame ? head : sentence, status)}
    ${message !== '' && !isSame && messageCard(status)}`;
}

/** Returns whether the job's first failure is also the newest failure of the task that failed. */
function isNewest(failure: FirstFailure, { tasks }: JobInfo): boolean {
  const newest = tasks.find((task) => nameOf(task) === nameOf(failure))?.failure;
  return newest?.lines.join('\n') === failure.lines.join('\n');
}

function failureCard(failure: FirstFailure, sentence: string, status: JobInfo): Content {
  const task = nameOf(failure);
  const shown = failure.lines.map(plainText).join('\n').trim();
  const recovered = !isOver(status) || status.state === 'succeeded';
  return html`<section class=${`alert ${recovered ? 'warn' : 'bad'}`} aria-labelledby="failure-title">
    <h2 id="failure-title">First failure: <code>${task}</code></h2>
    <p>${plainText(sentence)}</p>
    ${shown !== '' && html`<pre class="lines" tabIndex=${0} aria-label="Last lines of its stderr">${shown}</pre>`}
    <p class="more">
      ${recovered && html`<span>${status.state === 'succeeded' ? 'The job recovered from this failure.' : 'The job continues.'}</span>`}
      <a href=${formatRoute('logs', task, 'stderr')}>Log of ${task}</a>
      <a href=${formatRoute('timeline')}>Timeline</a>
      <a href=${formatRoute('events')}>Events</a>
    </p>
  </section>`;
}

const MESSAGE_TITLES: Readonly<Record<JobInfo['state'], string>> = {
  submitted: 'Starting',
  starting: 'Starting',
  waiting: 'Why the job is waiting',
  running: 'Some tasks are missing',
  recovering: 'Recovering',
  succeeded: 'How the job ended',
  failed: 'How the job ended',
  killed: 'How the job ended',
};

/**
 * Returns the title for the job's message. If roles in a running job are waiting for other roles, the message describes the waiting roles.
 */
export function messageTitle({ state, tasks }: JobInfo): string {
  const waiting = state === 'running' ? tasks.filter((task) => awaitedRoles(task).length > 0) : [];
  const roles = [...new Set(waiting.map(({ role }) => role))];
  if (roles.length === 0) {
    return MESSAGE_TITLES[state];
  }
  const awaited = [...new Set(waiting.flatMap(awaitedRoles))];
  return `${roles.length === 1 ? `Role ${roles[0]} waits` : `Roles ${roles.join(', ')} wait`} for ${awaited.join(', ')}`;
}

function messageCard(status: JobInfo): Content {
  const tone = status.state === 'failed' ? 'bad' : status.state === 'succeeded' || status.state === 'killed' ? 'calm' : 'warn';
  return html`<section class=${`alert ${tone}`} aria-labelledby="message-title">
    <h2 id="message-title">${messageTitle(status)}</h2>
    <p class="pre-line">${plainText(jobMessage(status))}</p>
  </section>`;
}

/** Renders a banner for a job that does not respond, with the time of the last response, the possible causes, and the next step. */
export function connectionBanner({ data, at, problem }: Reading<JobInfo>): Content {
  if (problem === null || data === null) {
    return null;
  }
  const seen = at === null ? '' : ` It was last seen ${formatAgo(Date.now() - at)}.`;
  const show = html`<code>tony-ts history show ${data.id}</code>`;
  switch (problem.kind) {
    case 'refused':
      return html`<p>${problem.text}</p>`;
    case 'moved':
      return html`<p><strong>The job's URL now redirects to another page.</strong>${seen} The job has ended, or its ApplicationMaster is restarting.
        This page shows the last known state. If the job has ended, ${show} shows the result.</p>`;
    case 'silent':
      return html`<p><strong>The ApplicationMaster has not answered for ${formatElapsed(at === null ? 0 : Date.now() - at)}.</strong>
        This page shows its last response. The programs may still be running. Trying again.</p>`;
    default:
      return html`<p><strong>Cannot reach the job.</strong>${seen} ${problem.text} Trying again.
        If the job has ended, ${show} shows the result.</p>`;
  }
}
