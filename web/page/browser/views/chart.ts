import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import { nearest } from '../parts/curves.ts';
import { useMedia } from '../parts/environment.ts';
import { type Content, html } from '../parts/html.ts';
import { TIME_STEPS } from '../parts/time-steps.ts';

export interface ChartLine {
  readonly name: string;
  readonly color: number;
  readonly xs: readonly number[];
  readonly ys: readonly (number | null)[];
  /** The values before smoothing, drawn faintly behind the smoothed line, or null without smoothing. */
  readonly raw: readonly (number | null)[] | null;
}

export interface ChartProps {
  readonly title: string;
  readonly lines: readonly ChartLine[];
  /** `time`: the x values are in seconds. */
  readonly x: 'number' | 'time';
  readonly logarithmic: boolean;
  /** Formats an x value. If `step`, the distance between two ticks, is given, formats an axis label. */
  readonly formatX: (x: number, step?: number) => string;
  /** Formats a y value. `step` has the same meaning as in `formatX`. */
  readonly formatY: (y: number, step?: number) => string;
  /** Charts with the same key share the cursor position. */
  readonly together: string;
  /** Returns the range of the y axis for the lowest and the highest value. By default, the range fits the lines. */
  readonly range?: (low: number, high: number) => [number, number];
}

/** The maximum number of lines for which the legend is compact, and the maximum number of lines that the chart's text alternative lists. */
const MOST_NAMES = 12;
const HEIGHT = 220;
export const COLORS = 10;

function paint(element: Element): { line: (index: number) => string; grid: string; text: string } {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return { line: (index) => read(`--line-${index % COLORS}`), grid: read('--grid'), text: read('--muted') };
}

export function Chart(props: ChartProps): Content {
  const { title, lines, x, logarithmic, formatX, formatY, together } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  // The cursor's x value and axis, for restoring the cursor when the chart is recreated.
  const place = useRef<{ readonly axis: string; readonly at: number } | null>(null);
  const dark = useMedia('(prefers-color-scheme: dark)');
  const data = useMemo(() => aligned(lines), [lines]);
  // A change to any of these properties recreates the chart. New points only update it.
  const shape = JSON.stringify([lines.map(({ name, color, raw }) => [name, color, raw !== null]), x, logarithmic, dark, together]);
  const newest = useRef(props);
  newest.current = props;

  useEffect(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    const kept = place.current;
    const onPoint = (at: number | null) => {
      place.current = at === null ? null : { axis: together, at };
      setPointed(at);
    };
    const from = kept?.axis === together ? kept.at : null;
    const created = new UPlot(
      plotOptions(element, () => newest.current, from, onPoint),
      data,
      element,
    );
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: widthIn(element), height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    if (plot.current !== null && plot.current.data !== data) {
      plot.current.setData(data);
    }
  }, [data]);

  const onKeyDown = (event: KeyboardEvent) => {
    const direction = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (plot.current === null || direction === undefined) {
      return;
    }
    event.preventDefault();
    movePoint(plot.current, direction);
  };
  const leave = () => plot.current?.setCursor({ left: -10, top: -10 });

  return html`<figure class="chart card">
    <figcaption><h3>${title}</h3><span class="figure at">${pointed === null ? '' : formatX(pointed)}</span></figcaption>
    <div class="plot" ref=${box} tabIndex=${0} role="img" aria-label=${described(props)} onKeyDown=${onKeyDown} onBlur=${leave}></div>
    ${legend(lines, pointed, formatY)}
  </figure>`;
}

/**
 * Returns the options for a new plot.
 * @param newest returns the current properties, because the formats may change without a new plot.
 * @param from the cursor's initial x value; null for no cursor.
 * @param onPoint called with the cursor's x value; null when the cursor leaves the plot.
 */
function plotOptions(
  element: HTMLElement,
  newest: () => ChartProps,
  from: number | null,
  onPoint: (at: number | null) => void,
): UPlot.Options {
  const { lines, x, logarithmic, together, range } = newest();
  const colors = paint(element);
  const axis = {
    stroke: colors.text,
    grid: { stroke: colors.grid, width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    width: widthIn(element),
    height: HEIGHT,
    // Leaves space for the right half of the last tick label.
    padding: [10, 22, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: together }, points: { size: 6 }, drag: { x: true, y: false }, dataIdx: nearestPoint },
    scales: {
      x: { time: false },
      y: logarithmic ? { distr: 3 } : range === undefined ? {} : { range: (_, low, high) => range(low, high) },
    },
    axes: [
      {
        ...axis,
        size: 26,
        gap: 6,
        space: 70,
        ...(x === 'time' ? { incrs: [...TIME_STEPS] } : {}),
        values: (_, splits, __, ___, step) => splits.map((at) => newest().formatX(at, step)),
      },
      {
        ...axis,
        size: (_, values) => 14 + 6.4 * Math.max(2, ...(values ?? []).map((text) => text?.length ?? 0)),
        values: (_, splits, __, ___, step) => splits.map((at) => (at === null ? '' : newest().formatY(at, step))),
      },
    ],
    series: [{}, ...lines.flatMap(({ color, raw }) => seriesOf(colors.line(color), raw !== null))],
    hooks: {
      ready: [(drawn) => from !== null && point(drawn, from)],
      setCursor: [({ cursor: { left = -1 }, posToVal }) => onPoint(left === null || left < 0 ? null : posToVal(left, 'x'))],
    },
  };
}

/** Returns the series for one line: the values before smoothing if they are visible, and the line itself. */
function seriesOf(stroke: string, hasRaw: boolean): UPlot.Series[] {
  const line = { stroke, width: 1.75, points: { show: few } };
  return hasRaw ? [{ stroke, width: 1, alpha: 0.28, points: { show: false } }, line] : [line];
}

function widthIn(element: HTMLElement): number {
  return Math.max(200, element.clientWidth);
}

function movePoint(plot: UPlot, direction: number): void {
  const xs = plot.data[0];
  // Reads the plot's own cursor, because users may press keys faster than the component renders.
  const { left = -1 } = plot.cursor;
  const at = left < 0 ? (direction > 0 ? 0 : xs.length - 1) : nearest(xs as number[], plot.posToVal(left, 'x')) + direction;
  const to = xs[Math.max(0, Math.min(xs.length - 1, at))];
  if (to !== undefined) {
    point(plot, to);
  }
}

function point(plot: UPlot, x: number): void {
  plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.bbox.height / 2 / devicePixelRatio });
}

function legend(lines: readonly ChartLine[], pointed: number | null, formatY: (y: number) => string): Content {
  return html`<ul class=${lines.length > MOST_NAMES ? 'legend many' : 'legend'}>
    ${lines.map((line) => {
      const value = valueAt(line, pointed);
      return html`<li key=${line.name}>
        <span class=${`swatch line-${line.color % COLORS}`} aria-hidden="true"></span>
        <span class="name">${line.name}</span>
        <span class="figure">${value === null ? '–' : formatY(value)}</span>
      </li>`;
    })}
  </ul>`;
}

/** Returns the value nearest to the cursor, or the newest value if there is no cursor. */
function valueAt({ xs, ys }: ChartLine, pointed: number | null): number | null {
  if (pointed !== null) {
    return ys[nearest(xs, pointed)] ?? null;
  }
  for (let index = ys.length - 1; index >= 0; index--) {
    const value = ys[index];
    if (value !== null && value !== undefined) {
      return value;
    }
  }
  return null;
}

function described({ title, lines, formatX, formatY }: ChartProps): string {
  const parts = lines.slice(0, MOST_NAMES).map((line) => {
    const known = line.ys.filter((value) => value !== null);
    const last = valueAt(line, null);
    if (last === null) {
      return `${line.name} has no values`;
    }
    const [low, high] = known.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [last, last] as [
      number,
      number,
    ]);
    return `${line.name}: ${formatY(last)} at ${formatX(line.xs.at(-1) ?? 0)}, lowest ${formatY(low)}, highest ${formatY(high)}`;
  });
  return `Chart of ${title}. ${parts.join('. ')}. Use the arrow keys to read values.`;
}

/**
 * Joins the lines on the common x axis that uPlot requires. In the result, undefined marks an x value at which a line has no point, and
 * null marks a gap.
 */
function aligned(lines: readonly ChartLine[]): UPlot.AlignedData {
  if (lines.length === 0) {
    return [[]];
  }
  const [first] = lines;
  const columns = (line: ChartLine) => (line.raw === null ? [line.ys] : [line.raw, line.ys]) as (number | null)[][];
  if (lines.every(({ xs }) => xs === first?.xs)) {
    return [[...(first?.xs ?? [])], ...lines.flatMap(columns)] as UPlot.AlignedData;
  }
  return UPlot.join(lines.map((line) => [line.xs as number[], ...columns(line)] as UPlot.AlignedData));
}

function few(plot: UPlot, series: number): boolean {
  return (plot.data[series] ?? []).filter((value) => value !== null && value !== undefined).length <= 20;
}

/**
 * Returns the index of the line's point nearest to the cursor. Each line has its own index, because lines rarely have points at the same x
 * values.
 */
function nearestPoint(plot: UPlot, series: number, at: number): number {
  const values = plot.data[series] ?? [];
  for (let distance = 0; distance < values.length; distance++) {
    for (const index of [at - distance, at + distance]) {
      if (values[index] !== null && values[index] !== undefined) {
        return index;
      }
    }
  }
  return at;
}
