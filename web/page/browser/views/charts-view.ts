import { h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { ScalarCharts } from '../../../job-view.ts';
import { choice, inputValue, searchField } from '../parts/controls.ts';
import { curvesByTag, isLoss, isThroughput, positive, type RunCurve, smoothed, type TagCurves } from '../parts/curves.ts';
import { usePreference } from '../parts/environment.ts';
import { formatCount, formatElapsed, formatMark, formatMetric } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import type { JobResources } from '../parts/job-resources.ts';
import { usePolledResource } from '../parts/polled-resource.ts';
import { Chart, type ChartLine, COLORS } from './chart.ts';

type XAxis = 'step' | 'relative' | 'wall';

interface Look {
  readonly smoothing: number;
  readonly logarithmic: boolean;
  readonly axis: XAxis;
}

/** TensorBoard's default. */
const SMOOTHING = 0.6;

export function HeadlineCharts({ feeds }: { feeds: JobResources }): Content {
  const { data } = usePolledResource(feeds.scalars);
  const tags = useMemo(() => (data === null ? [] : curvesByTag(data)), [data]);
  const colors = useMemo(() => colorsOf(data), [data]);
  const headlines = [tags.find(({ tag }) => isLoss(tag)), tags.find(({ tag }) => isThroughput(tag))];
  // If the job logs only loss or only throughput, another tag's chart fills the space.
  const shown = [...new Set([...headlines, ...tags])].filter((tag) => tag !== undefined).slice(0, 2);
  if (shown.length === 0) {
    return null;
  }
  return html`<div class="charts">
    ${shown.map((tag) => h(TagChart, { key: tag.tag, tag, colors, look: { smoothing: 0, logarithmic: false, axis: 'step' }, together: 'overview' }))}
  </div>`;
}

export function Charts({ feeds }: { feeds: JobResources }): Content {
  const { data, problem } = usePolledResource(feeds.scalars);
  const [smoothing, setSmoothing] = usePreference<number>('smoothing', SMOOTHING);
  const [scale, setScale] = usePreference<string>('scale', 'linear');
  const [axis, setAxis] = usePreference<string>('axis', 'step');
  const [filter, setFilter] = useState('');
  const tags = useMemo(() => (data === null ? [] : curvesByTag(data)), [data]);
  const colors = useMemo(() => colorsOf(data), [data]);
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the summaries …' : `The summaries cannot be read: ${problem.text}`}</p>`;
  }
  const shown = tags.filter(({ tag }) => tag.toLowerCase().includes(filter.trim().toLowerCase()));
  const look: Look = { smoothing, logarithmic: scale === 'log', axis: axis === 'relative' || axis === 'wall' ? axis : 'step' };
  return html`
    <div class="controls" role="group" aria-label="Chart settings">
      ${searchField('Filter', filter, setFilter, 'chart name')}
      <label>Smoothing
        <input type="range" min="0" max="0.99" step="0.01" value=${smoothing} onInput=${(event: InputEvent) => setSmoothing(Number(inputValue(event)))} />
        <output class="figure">${smoothing.toFixed(2)}</output>
      </label>
      ${choice('Scale', scale, setScale, { linear: 'linear', log: 'logarithmic' })}
      ${choice('X axis', axis, setAxis, { step: 'steps', relative: 'time since the start', wall: 'time of day' })}
    </div>
    ${data.message !== '' && html`<p class="remark">${data.message}</p>`}
    ${tags.length === 0 && html`<p class="empty">No curves yet: the job's program has reported no metrics and written no scalar summaries.</p>`}
    ${tags.length > 0 && shown.length === 0 && html`<p class="empty">No chart matches the filter.</p>`}
    <div class="charts">${shown.map((tag) => h(TagChart, { key: tag.tag, tag, colors, look, together: 'charts' }))}</div>`;
}

function TagChart({
  tag,
  colors,
  look,
  together,
}: {
  tag: TagCurves;
  colors: ReadonlyMap<string, number>;
  look: Look;
  together: string;
}): Content {
  const { smoothing, logarithmic, axis } = look;
  const lines = useMemo(
    () => tag.curves.map((curve) => lineOf(curve, { smoothing, logarithmic, axis }, colors.get(curve.run) ?? 0)),
    [tag, colors, smoothing, logarithmic, axis],
  );
  return h(Chart, {
    title: tag.tag,
    lines,
    x: axis === 'step' ? 'number' : 'time',
    logarithmic,
    formatX: FORMAT_X[axis],
    formatY: (value, step) => formatMetric(tag.tag, value, step),
    together: `${together}-${axis}`,
  });
}

const FORMAT_X: Readonly<Record<XAxis, (x: number, step?: number) => string>> = {
  step: (x) => formatCount(x),
  relative: (x) => formatElapsed(x * 1000),
  wall: (x, step = 1) => formatMark(x * 1000, step),
};

function lineOf(curve: RunCurve, { smoothing, logarithmic, axis }: Look, color: number): ChartLine {
  const visible = logarithmic ? positive(curve.values) : curve.values;
  const start = curve.times[0] ?? 0;
  const xs = axis === 'step' ? curve.steps : axis === 'wall' ? curve.times : curve.times.map((time) => time - start);
  return {
    name: curve.run,
    color,
    xs: axis === 'step' ? xs : ascending(xs),
    ys: smoothed(visible, smoothing),
    raw: smoothing > 0 && curve.values.length > 2 ? visible : null,
  };
}

/** Makes the times strictly ascending. Times may repeat or decrease when a clock is set back. */
function ascending(xs: readonly number[]): number[] {
  let last = Number.NEGATIVE_INFINITY;
  return xs.map((x) => {
    last = Math.max(x, last + 1e-6);
    return last;
  });
}

function colorsOf(charts: ScalarCharts | null): ReadonlyMap<string, number> {
  const names = (charts?.runs ?? []).map(({ name }) => name).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return new Map(names.map((name, index) => [name, index % COLORS]));
}
