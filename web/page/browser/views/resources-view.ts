import { h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { choice } from '../parts/controls.ts';
import { formatBytes, formatMark, formatNumber } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import type { JobResources } from '../parts/job-resources.ts';
import { usePolledResource } from '../parts/polled-resource.ts';
import { type Grouping, RESOURCES, type ResourceName, usageLines } from '../parts/usage-history.ts';
import { Chart, COLORS } from './chart.ts';
import { byRole, nameOf } from './task-table.ts';

/** The maximum number of tasks for which charts show one line per task by default. With more tasks, charts show one line per role. */
const MOST_LINES = 10;

const TITLES: Readonly<Record<ResourceName, string>> = {
  memory: 'Memory',
  cpu: 'CPU, cores',
  gpu: 'GPU utilization',
  gpuMemory: 'GPU memory',
};

const FORMATS: Readonly<Record<ResourceName, (value: number, step?: number) => string>> = {
  memory: bytes,
  cpu: (value) => formatNumber(value),
  gpu: (value) => `${Math.round(value)} %`,
  gpuMemory: bytes,
};

/** Formats a byte count. Axis ticks are round numbers and need no decimals. */
function bytes(value: number, step?: number): string {
  return step === undefined ? formatBytes(value) : formatBytes(value).replace('.0 ', ' ');
}

const SHARE = (): [number, number] => [0, 100];
const FROM_ZERO = (_: number, high: number): [number, number] => [0, high > 0 ? high * 1.1 : 1];

export function Resources({ status, feeds }: { status: JobInfo; feeds: JobResources }): Content {
  const { data, problem } = usePolledResource(feeds.usage);
  const [only, setOnly] = useState('');
  const [chosen, setChosen] = useState<Grouping | null>(null);
  const roles = useMemo(() => byRole(status.tasks), [status.tasks]);
  const count = status.tasks.filter(({ role }) => only === '' || only === role).length;
  const grouping = chosen ?? (count > MOST_LINES ? 'mean' : 'tasks');
  const samples = data?.samples ?? [];
  const charts = useMemo(() => {
    const xs = samples.map(({ at }) => at / 1000);
    return RESOURCES.map((resource) => ({
      resource,
      lines: usageLines(samples, resource, grouping, only).map(({ name, values }, index) => ({
        name,
        color: index % COLORS,
        xs,
        ys: values,
        raw: null,
      })),
    }));
  }, [samples, grouping, only]);
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the resource usage …' : `The resource usage cannot be read: ${problem.text}`}</p>`;
  }
  const names = {
    '': 'all tasks',
    ...Object.fromEntries(
      roles.flatMap(({ role, tasks }) => [[role, `role ${role}`], ...tasks.map((task) => [nameOf(task), nameOf(task)])]),
    ),
  };
  return html`
    <div class="controls" role="group" aria-label="Chart settings">
      ${choice('Show', only, setOnly, names)}
      ${choice('Lines', grouping, (value) => setChosen(value as Grouping), {
        tasks: 'one per task',
        mean: 'mean per role',
        highest: 'maximum per role',
        sum: 'sum per role',
      })}
    </div>
    ${samples.length === 0 && html`<p class="empty">No data yet: running tasks report their usage with their heartbeats.</p>`}
    <div class="charts">
      ${charts
        .filter(({ lines }) => lines.length > 0)
        .map(({ resource, lines }) =>
          h(Chart, {
            key: resource,
            title: TITLES[resource],
            lines,
            x: 'time',
            logarithmic: false,
            formatX: (x, step = 1) => formatMark(x * 1000, step),
            formatY: FORMATS[resource],
            together: 'resources',
            range: resource === 'gpu' ? SHARE : FROM_ZERO,
          }),
        )}
    </div>
    ${samples.length > 0 && !charts.some(({ resource, lines }) => resource === 'gpu' && lines.length > 0) && html`<p class="remark">No task has reported a GPU.</p>`}`;
}
