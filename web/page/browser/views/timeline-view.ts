import { h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { choice, searchField } from '../parts/controls.ts';
import { useMedia, useNow } from '../parts/environment.ts';
import { formatClock, formatElapsed, formatSpan } from '../parts/format.ts';
import { type Content, html } from '../parts/html.ts';
import { isOver, type JobResources } from '../parts/job-resources.ts';
import { plainText } from '../parts/plain-text.ts';
import { usePolledResource } from '../parts/polled-resource.ts';
import { formatRoute } from '../parts/route.ts';
import { timeMarks } from '../parts/time-steps.ts';
import { type End, isSpan, type TaskSpan, type TaskTimeline, type Timeline, type TimelinePhase, timelineOf } from './timeline.ts';

const PHASES: Readonly<Record<TimelinePhase, string>> = {
  requested: 'waiting for a container',
  launching: 'container starting',
  registered: 'waiting for the gang',
  running: 'running',
};

const OUTCOMES: Readonly<Record<End['outcome'], string>> = { succeeded: '✓', failed: '✗', stopped: '■' };

/**
 * The visible time range. `start` shows only the start of the job, because a few seconds are too short to see on the timeline of a job that
 * runs for hours.
 */
type Window = 'all' | 'start' | 'recent';

const RECENT_MS = 10 * 60_000;

export function TimelineView({ status, feeds }: { status: JobInfo; feeds: JobResources }): Content {
  const { data, problem } = usePolledResource(feeds.events);
  const [window, setWindow] = useState<Window>('all');
  const [filter, setFilter] = useState('');
  const narrow = useMedia('(max-width: 760px)');
  const now = useNow(isOver(status) ? null : 5_000);
  const timeline = useMemo(() => timelineOf(data?.entries ?? [], status, now), [data, status, now]);
  if (data === null) {
    return html`<p class="empty">${problem === null ? 'Reading the events …' : `The events cannot be read: ${problem.text}`}</p>`;
  }
  const shown = windowOf(timeline, window);
  const lanes = timeline.tasks.filter(({ task }) => task.includes(filter.trim()));
  return html`
    <div class="controls">
      ${choice('Show', window, (value) => setWindow(value as Window), { all: 'the whole job', start: 'the start', recent: 'the last ten minutes' })}
      ${status.tasks.length > 10 && searchField('Filter', filter, setFilter, 'task name')}
      <ul class="key" aria-label="Colours">
        ${(Object.keys(PHASES) as TimelinePhase[]).map((phase) => html`<li><span class=${`sample ${phase}`} aria-hidden="true"></span>${PHASES[phase]}</li>`)}
      </ul>
    </div>
    <div class="card timeline">
      ${axis(shown, timeline.from, narrow ? 3 : 7)}
      <ul class="lanes">${lanes.map((task) => h(Lane, { key: task.task, task, from: shown.from, to: shown.to, moments: timeline.moments }))}</ul>
    </div>
    <section class="card" aria-labelledby="moments-title">
      <h3 id="moments-title">Job events</h3>
      <ul class="moments">
        ${timeline.moments.map(({ at, text }) => html`<li><time class="figure">${formatClock(at)}</time> ${text} <span class="aside">after ${formatSpan(at - timeline.from)}</span></li>`)}
      </ul>
    </section>`;
}

function windowOf({ from, to, tasks }: Timeline, window: Window): { from: number; to: number } {
  if (window === 'recent') {
    return { from: Math.max(from, to - RECENT_MS), to };
  }
  if (window === 'all') {
    return { from, to };
  }
  const firstRuns = tasks.flatMap(({ spans }) => spans.find(({ phase }) => phase === 'running')?.from ?? []);
  const started = Math.max(from + 1_000, ...firstRuns);
  return { from, to: Math.min(to, from + (started - from) * 1.15) };
}

function axis({ from, to }: { from: number; to: number }, start: number, most: number): Content {
  const marks = timeMarks((to - from) / 1000, most);
  return html`<div class="axis" aria-hidden="true"><span class="lane-name"></span><div class="ticks">
    ${marks.map((mark) => html`<span key=${mark} style=${{ left: `${(mark * 100_000) / (to - from)}%` }}>${formatSpan(from - start + mark * 1000)}</span>`)}
  </div></div>`;
}

function Lane({ task, from, to, moments }: { task: TaskTimeline; from: number; to: number; moments: Timeline['moments'] }): Content {
  const [open, setOpen] = useState(false);
  const position = (at: number) => (100 * (Math.min(to, Math.max(from, at)) - from)) / (to - from);
  const visible = task.spans.filter((span) => span.to >= from && span.from <= to);
  return html`<li>
    <div class="lane">
      <button type="button" class="fold lane-name" aria-expanded=${open ? 'true' : 'false'} onClick=${() => setOpen(!open)}>
        <span class="arrow" aria-hidden="true"></span>${task.task}<span class="off-screen">: ${summary(task)}</span>
      </button>
      <div class="track" aria-hidden="true">
        ${moments.filter(({ at }) => at > from && at < to).map(({ at, text }) => html`<span class="moment" title=${text} style=${{ left: `${position(at)}%` }}></span>`)}
        ${visible.map((span, index) => {
          const left = position(span.from);
          return html`<span key=${index} class=${`span ${span.phase}${(span.generation ?? 1) % 2 === 0 ? ' even' : ''}${span.open ? ' open' : ''}`}
            style=${{ left: `${left}%`, width: `${position(span.to) - left}%` }} title=${describe(span)}>${label(span, to - from)}</span>`;
        })}
        ${task.ends
          .filter(({ at }) => at >= from && at <= to)
          .map(
            (end, index) =>
              html`<span key=${`end-${index}`} class=${`end ${end.outcome}`} style=${{ left: `${position(end.at)}%` }} title=${plainText(end.text.split('\n')[0] ?? '')}>${OUTCOMES[end.outcome]}</span>`,
          )}
      </div>
    </div>
    ${open && phaseTable(task)}
  </li>`;
}

function label({ generation, from, to }: TaskSpan, visibleMs: number): string {
  return generation !== null && (to - from) / visibleMs > 0.12 ? `generation ${generation}` : '';
}

function describe({ phase, generation, from, to, open, node, attempt }: TaskSpan): string {
  const which = generation === null ? '' : `, generation ${generation}`;
  return `${PHASES[phase]}${which}: ${formatSpan(to - from)}${open ? ' so far' : ''}${node === null ? '' : `, on ${node}`}, container ${attempt}`;
}

function summary({ spans, ends }: TaskTimeline): string {
  const last = spans.at(-1);
  const end = ends.at(-1);
  if (last?.open) {
    return `${PHASES[last.phase]} for ${formatElapsed(last.to - last.from)}`;
  }
  return end === undefined ? 'no events' : `${end.outcome} at ${formatClock(end.at)}`;
}

function phaseTable({ task, steps }: TaskTimeline): Content {
  const rows = steps.map((step) =>
    isSpan(step)
      ? { at: step.from, what: PHASES[step.phase], span: step }
      : { at: step.at, what: `${step.outcome}: ${plainText(step.text.split('\n')[0] ?? '')}`, span: null },
  );
  return html`<div class="table-box"><table class="plain">
    <caption class="off-screen">Phases of ${task}</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Phase</th><th scope="col" class="number">Duration</th><th scope="col" class="number">Generation</th><th scope="col" class="number">Container</th><th scope="col">Node</th><th scope="col"><span class="off-screen">Log</span></th></tr></thead>
    <tbody>${rows.map(
      ({ at, what, span }) => html`<tr><td class="figure">${formatClock(at)}</td><td>${what}</td>
        <td class="number">${span === null ? '' : formatSpan(span.to - span.from)}</td>
        <td class="number">${span?.generation ?? ''}</td><td class="number">${span?.attempt ?? ''}</td><td>${span?.node ?? ''}</td>
        <td>${span?.containerId ? html`<a href=${formatRoute('logs', span.containerId, 'stderr')}>log</a>` : ''}</td></tr>`,
    )}</tbody>
  </table></div>`;
}
