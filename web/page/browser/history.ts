import { useEffect, useMemo, useState } from 'preact/hooks';
import { jobDurationText } from '../../../conf/status/job-duration.ts';
import type { ListedJob } from '../../../conf/status/job-info.ts';
import type { HistoryList } from '../../history-list.ts';
import { getJson } from './parts/api.ts';
import { stateBadge } from './parts/badge.ts';
import { choice, containsWords, searchField } from './parts/controls.ts';
import { formatCount, formatMoment, formatNumberOf } from './parts/format.ts';
import { type Content, html, mount } from './parts/html.ts';
import { plainText } from './parts/plain-text.ts';
import { PolledResource, usePolledResource } from './parts/polled-resource.ts';

const EVERY_MS = 30_000;
/** The number of rows that browsers lay out without a visible delay. */
const ROWS_PER_PAGE = 200;

function HistoryPage(): Content {
  const feed = useMemo(() => new PolledResource({ load: () => getJson<HistoryList>('history'), everyMs: EVERY_MS }), []);
  const { data, problem } = usePolledResource(feed);
  const [filter, setFilter] = useState('');
  const [state, setState] = useState('');
  const [most, setMost] = useState(ROWS_PER_PAGE);
  useEffect(() => {
    document.title = 'Jobs - tony-ts';
  }, []);
  const found = useMemo(
    () => (data?.jobs ?? []).filter((job) => (state === '' || job.state === state) && matches(job, filter)),
    [data, filter, state],
  );
  if (data === null) {
    return html`<main class="wide"><p class="loading" role="status">${problem === null ? 'Loading the jobs …' : problem.text}</p></main>`;
  }
  const states = [...new Set(data.jobs.map((job) => job.state))].sort();
  return html`
    <header class="top"><div class="wide">
      <div class="brand"><span class="mark" aria-hidden="true"></span>tony-ts</div>
      <div class="title"><h1>Jobs</h1></div>
    </div></header>
    <main class="wide index">
      ${problem !== null && html`<p class="remark" role="alert">The list may be out of date: ${problem.text}</p>`}
      ${data.message !== '' && html`<p class="remark">${data.message}</p>`}
      <div class="controls">
        ${searchField('Filter', filter, setFilter, 'name, id, user, queue')}
        ${choice('State', state, setState, { '': 'any', ...Object.fromEntries(states.map((each) => [each, each])) })}
        <span class="aside" role="status">${formatNumberOf(found.length, 'job', data.jobs.length)}</span>
      </div>
      <div class="table-box card">
        <table class="jobs" role="table">
          <caption class="off-screen">Jobs, newest first</caption>
          <thead role="rowgroup"><tr role="row">
            ${['Job', 'State', 'User', 'Queue', 'Submitted'].map((title) => html`<th scope="col" role="columnheader">${title}</th>`)}
            ${['Duration', 'Step'].map((title) => html`<th scope="col" role="columnheader" class="number">${title}</th>`)}
          </tr></thead>
          <tbody role="rowgroup">${found.slice(0, most).map(row)}</tbody>
        </table>
        ${
          found.length === 0 &&
          html`<p class="empty">${data.jobs.length === 0 ? 'No finished jobs yet.' : 'No job matches the filter.'}</p>`
        }
      </div>
      ${found.length > most && html`<p class="more-rows"><button type="button" onClick=${() => setMost(most + ROWS_PER_PAGE)}>Show older jobs</button></p>`}
    </main>`;
}

function row(job: ListedJob): Content {
  const { id, name, user, queue, state, createdAt, finishedAt, step, message, urls } = job;
  const sentence = plainText(message.split('\n')[0] ?? '');
  return html`<tr role="row" key=${id}>
    <th scope="row" role="rowheader" class="c-job">
      <a href=${safe(urls.pages ?? '')}>${name}</a><br /><code class="aside">${id}</code>
      ${sentence !== '' && html`<span class="aside sentence" title=${plainText(message)}>${sentence}</span>`}
    </th>
    <td role="cell" class="c-state">${stateBadge(state)}</td>
    <td role="cell" data-title="User">${user}</td>
    <td role="cell" data-title="Queue">${queue}</td>
    <td role="cell" class="figure" data-title="Submitted">${createdAt === null ? '' : formatMoment(createdAt)}</td>
    <td role="cell" class="number" data-title="Duration">${finishedAt === null ? '' : jobDurationText(job, finishedAt)}</td>
    <td role="cell" class="number" data-title="Step">${step > 0 ? formatCount(step) : ''}</td>
  </tr>`;
}

/** Returns the absolute URL if the link leads to a page below this page, or this page's own URL otherwise. */
function safe(href: string): string {
  const base = new URL('.', location.href);
  try {
    const url = new URL(href, base);
    return url.href.startsWith(base.href) ? url.href : base.href;
  } catch {
    return base.href;
  }
}

function matches({ name, id, user, queue, message }: ListedJob, filter: string): boolean {
  return containsWords(`${name}\n${id}\n${user}\n${queue}\n${message}`, filter);
}

mount(HistoryPage);
