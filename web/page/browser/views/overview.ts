import { h } from 'preact';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { orphanTexts } from '../../../../conf/status/orphaned-containers.ts';
import type { TaskStatus } from '../../../../conf/status/status.ts';
import { type MeanStepProfile, stepProfile, withoutProfile } from '../../../../conf/status/step-profile.ts';
import { toneOf } from '../parts/badge.ts';
import { Copy } from '../parts/copy.ts';
import { formatBytes, formatCount, formatMetric, formatStepTime, spoken } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import type { JobResources } from '../parts/job-resources.ts';
import { plainText } from '../parts/plain-text.ts';
import { formatRoute } from '../parts/route.ts';
import { HeadlineCharts } from './charts-view.ts';
import { byRole, countsText, nameOf, stateCounts } from './task-table.ts';

const MOST_METRICS = 8;

export function Overview({ status, feeds }: { status: JobInfo; feeds: JobResources }): Content {
  const metrics = Object.entries(withoutProfile(status.metrics));
  const profile = stepProfile(status.metrics);
  const orphans = orphanTexts(status, Date.now());
  return html`
    <dl class="tiles">
      ${tile('Step', formatCount(status.step), status.checkpointStep > 0 ? `checkpoint at ${formatCount(status.checkpointStep)}` : 'no checkpoint yet')}
      ${metrics.slice(0, MOST_METRICS).map(([name, value]) => tile(spoken(name), formatMetric(name, value)))}
      ${profile !== null && stepTimeTile(profile)}
      ${status.elastic && tile(`Running ${status.elastic.role}`, String(status.elastic.running), `of ${status.elastic.min} to ${status.elastic.max}`)}
      ${status.generations > 1 && tile('Generation', String(status.generations))}
      ${status.masterAttempt > 1 && tile('ApplicationMaster attempt', String(status.masterAttempt))}
    </dl>
    ${h(HeadlineCharts, { feeds })}
    <div class="columns">
      <section class="card" aria-labelledby="roles-title">
        <h3 id="roles-title">Roles</h3>
        <ul class="roles">${byRole(status.tasks).map(({ role, tasks }) => roleRow(role, tasks))}</ul>
      </section>
      <section class="card" aria-labelledby="places-title">
        <h3 id="places-title">Locations</h3>
        <dl class="places">
          ${place('Checkpoints', status.checkpointUri)}
          ${place('Summaries', status.summaryUri)}
          ${status.master !== null && masterPlace(status.master)}
          ${status.tensorboard.message !== '' && html`<div><dt>TensorBoard</dt><dd>${status.tensorboard.message}</dd></div>`}
        </dl>
      </section>
    </div>
    ${orphans.length > 0 && noticeCard('orphans', 'Programs that may still be running', orphans)}
    ${status.notices.length > 0 && noticeCard('notices', 'Notices', status.notices)}`;
}

function noticeCard(name: string, title: string, texts: readonly string[]): Content {
  return html`<section class="card" aria-labelledby=${`${name}-title`}>
    <h3 id=${`${name}-title`}>${title}</h3>
    <ul class="notices">${texts.map((text) => html`<li>${plainText(text)}</li>`)}</ul>
  </section>`;
}

function tile(title: string, value: string, more = ''): Content {
  return html`<div class="tile"><dt title=${title}>${title}</dt><dd class="figure">${value}${more !== '' && html`<span>${more}</span>`}</dd></div>`;
}

/** Shows the mean time of a step and its two longest activities. The charts show all activities. */
function stepTimeTile({ stepMs, activities }: MeanStepProfile): Content {
  const longest = activities.slice(0, 2).map(({ name, ms }) => `${name} ${formatStepTime(ms)}`);
  return tile('Step time', formatStepTime(stepMs), longest.join(', '));
}

function roleRow(role: string, tasks: readonly TaskStatus[]): Content {
  const counts = stateCounts(tasks);
  const only = tasks.length === 1 ? tasks[0] : undefined;
  const href = only === undefined ? formatRoute('tasks', role) : formatRoute('logs', nameOf(only), 'stderr');
  return html`<li key=${role}>
    <div class="role-line">
      <a href=${href}>${role}</a>
      <span class="aside">${countsText(tasks)}</span>
    </div>
    <div class="bar" aria-hidden="true">
      ${counts.map(({ state, count }) => html`<span class=${toneOf(state)} style=${{ flexGrow: count }}></span>`)}
    </div>
  </li>`;
}

function place(title: string, uri: string): Content {
  return html`<div><dt>${title}</dt><dd><code class="uri">${uri}</code> ${h(Copy, { text: uri, what: `location of the ${title.toLowerCase()}` })}</dd></div>`;
}

function masterPlace({ node, memoryBytes, cpuCores, latenessMs }: NonNullable<JobInfo['master']>): Content {
  return html`<div><dt>ApplicationMaster</dt>
    <dd>${node}, ${formatBytes(memoryBytes)}, ${cpuCores.toFixed(2)} cores, timers ${Math.round(latenessMs)} ms late (p99)
    ${' '}<a href=${formatRoute('logs', 'master', 'tony.log')}>log</a></dd></div>`;
}
