import { h } from 'preact';
import { jobDurationText } from '../../../../conf/status/job-duration.ts';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { TENSORBOARD_URL } from '../parts/api.ts';
import { stateBadge } from '../parts/badge.ts';
import { Copy } from '../parts/copy.ts';
import { useNow } from '../parts/environment.ts';
import { formatMoment } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import { isOver } from '../parts/job-resources.ts';

export function Header({ status }: { status: JobInfo }): Content {
  const over = isOver(status);
  const now = useNow(over ? null : 1_000);
  const elapsed = jobDurationText(status, now);
  return html`<header class="top">
    <div class="wide">
      <div class="brand"><span class="mark" aria-hidden="true"></span>tony-ts</div>
      <div class="title">
        <h1>${status.name}</h1>
        ${stateBadge(status.state)}
        <span class="spring"></span>
        ${tensorBoard(status)}
      </div>
      <dl class="facts">
        <div><dt>Job</dt><dd><code>${status.id}</code> ${h(Copy, { text: status.id, what: 'job ID' })}</dd></div>
        <div><dt>User</dt><dd>${status.user}</dd></div>
        <div><dt>Queue</dt><dd>${status.queue}</dd></div>
        <div><dt>Submitted</dt><dd>${submission(status)}</dd></div>
        <div><dt>${over ? 'Duration' : 'Elapsed'}</dt><dd class="figure">${elapsed}</dd></div>
      </dl>
    </div>
  </header>`;
}

function submission({ createdAt }: JobInfo): Content {
  return createdAt === null ? 'unknown' : html`<time datetime=${new Date(createdAt).toISOString()}>${formatMoment(createdAt)}</time>`;
}

function tensorBoard(status: JobInfo): Content {
  const { state, message } = status.tensorboard;
  switch (state) {
    case 'ready':
      return html`<a class="button primary" href=${TENSORBOARD_URL}>Open TensorBoard</a>`;
    case 'waiting':
    case 'starting':
      // For a running job, the URL shows a waiting page until TensorBoard is ready. For an ended job in the history, opening the URL starts
      // TensorBoard.
      return html`<a class="button" href=${TENSORBOARD_URL} title=${message}>${isOver(status) ? 'Open TensorBoard' : `TensorBoard (${state})`}</a>`;
    case 'unavailable':
      return html`<span class="aside" title=${message}>No TensorBoard</span>`;
    case 'off':
      return null;
  }
}
