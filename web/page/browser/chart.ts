import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import { nearest } from './curves.ts';
import { useMedia } from './environment.ts';
import { type Content, html } from './html.ts';
import { TIME_STEPS } from './time-steps.ts';

/** A line with its own places on the x axis, which only go up. */
export interface Line {
  readonly name: string;
  /** Which of the palette's colours. */
  readonly color: number;
  readonly xs: readonly number[];
  readonly ys: readonly (number | null)[];
  /** What it was smoothed from; drawn faintly behind. */
  readonly raw: readonly (number | null)[] | null;
}

export interface ChartProps {
  readonly title: string;
  readonly lines: readonly Line[];
  /** `time`: x counts seconds. */
  readonly x: 'number' | 'time';
  readonly logarithmic: boolean;
  /** `step`: the distance between two marks where it is one of an axis. */
  readonly formatX: (x: number, step?: number) => string;
  /** `step`: as with x. */
  readonly formatY: (y: number, step?: number) => string;
  /** Charts of one name show the same place under the pointer. */
  readonly together: string;
  /** Where the y axis begins and ends, given the lowest and the highest value; as the lines need it when it is left out. */
  readonly range?: (low: number, high: number) => [number, number];
}

/** Beyond it a legend is a list of its own. */
const MOST_NAMES = 12;
const HEIGHT = 220;
export const COLORS = 10;

/** The colours of the canvas, from the style sheet. */
function paint(element: Element): { line: (index: number) => string; grid: string; text: string } {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return { line: (index) => read(`--line-${index % COLORS}`), grid: read('--grid'), text: read('--muted') };
}

export function Chart(props: ChartProps): Content {
  const { title, lines, x, logarithmic, formatX, formatY, together, range } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  // Where the cursor is, on which axis: another drawing (other lines, other colours) begins there.
  const place = useRef<{ readonly axis: string; readonly at: number } | null>(null);
  const dark = useMedia('(prefers-color-scheme: dark)');
  const data = useMemo(() => aligned(lines), [lines]);
  // What only another drawing can show; new points alone are given to the one that is there.
  const shape = JSON.stringify([lines.map(({ name, color, raw }) => [name, color, raw !== null]), x, logarithmic, dark, together]);
  const formats = useRef({ formatX, formatY });
  formats.current = { formatX, formatY };

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const colors = paint(element);
    const kept = place.current;
    const axis = {
      stroke: colors.text,
      grid: { stroke: colors.grid, width: 1 },
      ticks: { show: false },
      font: '11px system-ui, sans-serif',
    };
    const created = new UPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: HEIGHT,
        // On the right half of the last tick's number, which may be a long one.
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
            values: (_, splits, __, ___, step) => splits.map((at) => formats.current.formatX(at, step)),
          },
          {
            ...axis,
            size: (_, values) => 14 + 6.4 * Math.max(2, ...(values ?? []).map((text) => text?.length ?? 0)),
            values: (_, splits, __, ___, step) => splits.map((at) => (at === null ? '' : formats.current.formatY(at, step))),
          },
        ],
        series: [
          {},
          ...lines.flatMap(({ color, raw }) => {
            const stroke = colors.line(color);
            const points = { show: few };
            return raw === null
              ? [{ stroke, width: 1.75, points }]
              : [
                  { stroke, width: 1, alpha: 0.28, points: { show: false } },
                  { stroke, width: 1.75, points },
                ];
          }),
        ],
        hooks: {
          ready: [(drawn) => kept?.axis === together && point(drawn, kept.at)],
          setCursor: [
            ({ cursor, posToVal }) => {
              const { left } = cursor;
              const at = left === undefined || left === null || left < 0 ? null : posToVal(left, 'x');
              place.current = at === null ? null : { axis: together, at };
              setPointed(at);
            },
          ],
        },
      },
      data,
      element,
    );
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    if (plot.current !== null && plot.current.data !== data) plot.current.setData(data);
  }, [data]);

  const onKeyDown = (event: KeyboardEvent) => {
    const created = plot.current;
    const direction = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (created === null || direction === undefined) return;
    event.preventDefault();
    const xs = created.data[0];
    // Where the plot's own cursor is: keys come faster than the page is drawn.
    const { left = -1 } = created.cursor;
    const at = left < 0 ? (direction > 0 ? 0 : xs.length - 1) : nearest(xs as number[], created.posToVal(left, 'x')) + direction;
    const to = xs[Math.max(0, Math.min(xs.length - 1, at))];
    if (to !== undefined) point(created, to);
  };
  const leave = () => plot.current?.setCursor({ left: -10, top: -10 });

  return html`<figure class="chart card">
    <figcaption><h3>${title}</h3><span class="figure at">${pointed === null ? '' : formatX(pointed)}</span></figcaption>
    <div class="plot" ref=${box} tabIndex=${0} role="img" aria-label=${described(props)} onKeyDown=${onKeyDown} onBlur=${leave}></div>
    ${legend(lines, pointed, formatY)}
  </figure>`;
}

/** Puts the cursor at an x. */
function point(plot: UPlot, x: number): void {
  plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.bbox.height / 2 / devicePixelRatio });
}

function legend(lines: readonly Line[], pointed: number | null, formatY: (y: number) => string): Content {
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

/** The value nearest to where the pointer is; the newest when it is nowhere. */
function valueAt({ xs, ys }: Line, pointed: number | null): number | null {
  if (pointed !== null) return ys[nearest(xs, pointed)] ?? null;
  for (let index = ys.length - 1; index >= 0; index--) {
    const value = ys[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** For those who do not see it. */
function described({ title, lines, formatX, formatY }: ChartProps): string {
  const parts = lines.slice(0, MOST_NAMES).map((line) => {
    const known = line.ys.filter((value) => value !== null);
    const last = valueAt(line, null);
    if (last === null) return `${line.name} has no values`;
    const [low, high] = known.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [last, last] as [
      number,
      number,
    ]);
    return `${line.name}: ${formatY(last)} at ${formatX(line.xs.at(-1) ?? 0)}, lowest ${formatY(low)}, highest ${formatY(high)}`;
  });
  return `Chart of ${title}. ${parts.join('. ')}. Arrow keys read values.`;
}

/** uPlot wants one x axis for all: undefined is where a line has no point of its own, null where it is interrupted. */
function aligned(lines: readonly Line[]): UPlot.AlignedData {
  if (lines.length === 0) return [[]];
  const [first] = lines;
  const columns = (line: Line) => (line.raw === null ? [line.ys] : [line.raw, line.ys]) as (number | null)[][];
  if (lines.every(({ xs }) => xs === first?.xs)) return [[...(first?.xs ?? [])], ...lines.flatMap(columns)] as UPlot.AlignedData;
  return UPlot.join(lines.map((line) => [line.xs as number[], ...columns(line)] as UPlot.AlignedData));
}

/** Single points of a short line are to be seen. */
function few(plot: UPlot, series: number): boolean {
  return (plot.data[series] ?? []).filter((value) => value !== null && value !== undefined).length <= 20;
}

/** Runs seldom have points at the same places: each marks its own nearest. */
function nearestPoint(plot: UPlot, series: number, at: number): number {
  const values = plot.data[series] ?? [];
  for (let distance = 0; distance < values.length; distance++) {
    for (const index of [at - distance, at + distance]) {
      if (values[index] !== null && values[index] !== undefined) return index;
    }
  }
  return at;
}
