import { h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { describeConditions } from '../../../../conf/role-conditions.ts';
import { describeFailure } from '../../../../conf/status/event-text.ts';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { awaitedRoles, restartsOf, type TaskStatus } from '../../../../conf/status/status.ts';
import { stateBadge } from '../parts/badge.ts';
import { inputValue, searchField } from '../parts/controls.ts';
import { formatAgo, formatBytes, formatCount, formatNumber, formatNumberOf, formatShare } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import { plainText } from '../parts/plain-text.ts';
import { formatRoute } from '../parts/route.ts';
import { byRole, countsText, gpuOf, matches, nameOf, type RoleTasks, type Sort, type SortKey, sorted } from './task-table.ts';

const COLUMNS: readonly { readonly key: SortKey; readonly title: string; readonly number?: boolean }[] = [
  { key: 'task', title: 'Task' },
  { key: 'state', title: 'State' },
  { key: 'node', title: 'Node' },
  { key: 'generation', title: 'Generation', number: true },
  { key: 'restarts', title: 'Restarts', number: true },
  { key: 'heartbeat', title: 'Heartbeat', number: true },
  { key: 'step', title: 'Step', number: true },
  { key: 'memory', title: 'Memory', number: true },
  { key: 'cpu', title: 'CPU', number: true },
  { key: 'gpu', title: 'GPU', number: true },
];

/** @param first the initial filter: a role, from a link to this view. */
export function Tasks({ status, first }: { status: JobInfo; first: string }): Content {
  const [sort, setSort] = useState<Sort>({ key: 'task', descending: false });
  const [filter, setFilter] = useState(first === '' ? '' : `${first}:`);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const groups = useMemo(
    () =>
      byRole(status.tasks).map(({ role, tasks }) => ({
        role,
        tasks,
        shown: sorted(
          tasks.filter((task) => matches(task, filter)),
          sort,
        ),
      })),
    [status.tasks, filter, sort],
  );
  const found = groups.reduce((sum, { shown }) => sum + shown.length, 0);
  const sortBy = (key: SortKey) =>
    setSort((before) => ({ key, descending: before.key === key ? !before.descending : startsDescending(key) }));
  const toggle = (role: string) =>
    setClosed((before) => {
      const after = new Set(before);
      if (!after.delete(role)) {
        after.add(role);
      }
      return after;
    });
  return html`
    <div class="controls">
      ${searchField('Filter', filter, setFilter, 'task, state, node, failure')}
      <label class="narrow-only">Sort by
        <select value=${sort.key} onChange=${(event: Event) => sortBy(inputValue(event) as SortKey)}>
          ${COLUMNS.map(({ key, title }) => html`<option key=${key} value=${key} selected=${key === sort.key}>${title.toLowerCase()}</option>`)}
        </select>
      </label>
      <span class="aside" role="status">${formatNumberOf(found, 'task', status.tasks.length)}</span>
    </div>
    <div class="table-box card">
      <table class="tasks" role="table">
        <caption class="off-screen">Tasks by role</caption>
        ${tableHead(sort, sortBy)}
        ${groups
          .filter(({ shown }) => shown.length > 0 || filter.trim() === '')
          .map((group) => roleGroup(group, !closed.has(group.role), () => toggle(group.role)))}
      </table>
      ${found === 0 && html`<p class="empty">No task matches the filter.</p>`}
    </div>`;
}

function tableHead(sort: Sort, sortBy: (key: SortKey) => void): Content {
  return html`<thead role="rowgroup"><tr role="row">
    ${COLUMNS.map(
      ({ key, title, number }) => html`<th scope="col" role="columnheader" key=${key} class=${number ? 'number' : ''}
        aria-sort=${sort.key === key ? (sort.descending ? 'descending' : 'ascending') : 'none'}>
        <button type="button" class="sort" onClick=${() => sortBy(key)}>${title}</button></th>`,
    )}
    <th scope="col" role="columnheader"><span class="off-screen">Log</span></th>
  </tr></thead>`;
}

function roleGroup(
  { role, tasks, shown }: RoleTasks & { readonly shown: readonly TaskStatus[] },
  open: boolean,
  toggle: () => void,
): Content {
  return html`<tbody role="rowgroup" key=${role}>
    <tr role="row" class="role">
      <th scope="rowgroup" role="rowheader" colspan=${COLUMNS.length + 1}>
        <button type="button" class="fold" aria-expanded=${open ? 'true' : 'false'} onClick=${toggle}>
          <span class="arrow" aria-hidden="true"></span>${role}
          <span class="aside">${countsText(tasks)}</span>
        </button>
      </th>
    </tr>
    ${open && shown.map((task) => h(TaskRow, { key: nameOf(task), task }))}
  </tbody>`;
}

/** Numeric columns initially sort in descending order, names and states in ascending order. */
function startsDescending(key: SortKey): boolean {
  return !['task', 'state', 'node'].includes(key);
}

function TaskRow({ task }: { task: TaskStatus }): Content {
  const name = nameOf(task);
  const { usage, silentMs, failure, waitsFor } = task;
  const gpu = gpuOf(task);
  const live = ['launching', 'registered', 'running'].includes(task.state);
  return html`
    <tr role="row" class="task">
      <th scope="row" role="rowheader" class="c-task"><a href=${formatRoute('logs', name, 'stderr')}>${name}</a></th>
      <td role="cell" class="c-state">${stateBadge(task.state, awaitedRoles(task).length > 0 ? 'waiting' : task.state)}${usage?.stopped === true && live && html` <span class="badge warn">stopped by a signal</span>`}${
        waitsFor !== undefined &&
        html` <span class="aside">${task.state === 'requested' ? '' : 'waited '}until ${describeConditions(waitsFor)}</span>`
      }</td>
      ${cell('node', 'Node', task.node ?? '')}
      ${cell('generation', 'Generation', task.generation > 0 ? String(task.generation) : '', true)}
      ${cell('restarts', 'Restarts', restartsOf(task) > 0 ? String(restartsOf(task)) : '', true)}
      ${cell('heartbeat', 'Heartbeat', silentMs !== null && live ? formatAgo(silentMs) : '', true)}
      ${cell('step', 'Step', task.step > 0 ? formatCount(task.step) : '', true)}
      ${cell('memory', 'Memory', usage !== null && live ? formatBytes(usage.memoryBytes) : '', true)}
      ${cell('cpu', 'CPU', usage !== null && live ? formatNumber(Math.round(usage.cpuCores * 100) / 100) : '', true)}
      ${cell('gpu', 'GPU', gpu !== null && live ? formatShare(gpu) : '', true)}
      <td role="cell" class="c-log"><a href=${formatRoute('logs', name, 'stderr')} aria-label=${`Log of ${name}`}>log</a></td>
    </tr>
    ${
      failure !== null &&
      html`<tr role="row" class="failure"><td role="cell" colspan=${COLUMNS.length + 1}><span>${plainText(describeFailure(failure, task.role))}</span></td></tr>`
    }`;
}

/** Renders a table cell. On a narrow screen, each cell shows its column's title, and empty cells are hidden. */
function cell(key: SortKey, title: string, text: string, number = false): Content {
  return html`<td role="cell" class=${`c-${key}${number ? ' number' : ''}${text === '' ? ' none' : ''}`} data-title=${title}>${text}</td>`;
}
