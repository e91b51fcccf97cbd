import { describeFailure, namesNode } from '../../../conf/status/event-text.ts';
import { stepProfile, withoutProfile } from '../../../conf/status/step-profile.ts';
import type { TaskFailure } from '../../../conf/status/task-failure.ts';
import { describeMetric, formatBytes } from '../../../conf/values/quantities.ts';
import { formatDuration } from '../../../conf/values/units.ts';
import type { EndedJob } from '../../connections/operations/follow-job.ts';
import type { JobEvent } from '../../connections/operations/job-events.ts';
import type { StagingEvent } from '../../staging/staging.ts';
import { clip, harmless, indentedLines, oneLine, type Terminal } from '../../terminal/terminal.ts';
import { fold } from '../../terminal/text-width.ts';
import { metricsText, nodeName } from './job-table.ts';

/**
 * Returns a line such as `source unchanged (12.3 kB already on HDFS)`, or undefined while an upload is in progress.
 * @param isLocal whether the job runs on this machine, so that its files are copied into the local cache instead of uploaded
 */
export function stagingLine(event: StagingEvent, isLocal: boolean): string | undefined {
  if (event.type === 'unchanged') {
    return `${event.name} unchanged (${formatBytes(event.bytes)} already ${isLocal ? 'on this machine' : 'on HDFS'})`;
  }
  return event.sent === event.total ? `${event.name} ${isLocal ? 'copied' : 'uploaded'} (${formatBytes(event.total)})` : undefined;
}

/** @param queue the job's queue on the cluster. The line about a local job, which has no tracking URL, does not contain it. */
export function submittedLine({
  id,
  queue,
  trackingUrl,
}: {
  readonly id: string;
  readonly queue: string;
  readonly trackingUrl: string | null;
}): string {
  return trackingUrl === null ? `started ${id}` : `submitted ${id} to queue ${queue}`;
}

/**
 * Returns a line such as `runtime [#####-----] 45 % 81.0 MB of 180.0 MB 64.2 MB/s 2 s left`. Omits the bar on a narrow terminal, and the
 * amounts on a very narrow one.
 */
export function uploadBar(name: string, sent: number, total: number, elapsedMs: number, columns: number): string {
  const { percent, amounts, speed } = factsOf(sent, total, elapsedMs);
  const facts = [percent, amounts, speed].join('  ');
  const label = clip(name, Math.max(8, columns - 40));
  const width = Math.min(30, columns - 1 - label.length - facts.length - 6);
  if (width < 5) {
    const whole = `${label}  ${facts}`;
    return whole.length < columns ? whole : clip(`${label}  ${percent}  ${speed}`, columns - 1);
  }
  const done = Math.round((total === 0 ? 1 : sent / total) * width);
  return `${label}  [${'#'.repeat(done)}${'-'.repeat(width - done)}]  ${facts}`;
}

/** Returns a line such as `runtime: 45 %, 81.0 MB of 180.0 MB, 64.2 MB/s, 2 s left`. */
export function uploadFacts(name: string, sent: number, total: number, elapsedMs: number): string {
  const { percent, amounts, speed } = factsOf(sent, total, elapsedMs);
  return `${name}: ${[percent.trim(), amounts, ...speed.split('  ')].join(', ')}`;
}

function factsOf(sent: number, total: number, elapsedMs: number): { percent: string; amounts: string; speed: string } {
  const rate = elapsedMs > 0 ? (sent / elapsedMs) * 1000 : 0;
  const share = total === 0 ? 1 : sent / total;
  const left = rate > 0 && elapsedMs > 500 ? `  ${formatDuration(1000 * Math.ceil((total - sent) / rate))} left` : '';
  return {
    percent: `${(share * 100).toFixed(0).padStart(3)} %`,
    amounts: `${formatBytes(sent)} of ${formatBytes(total)}`,
    speed: `${formatBytes(rate)}/s${left}`,
  };
}

/** Failures are reported only in these task states. A failed task that will restart is in the `requested` state. */
const ENDED_BADLY: ReadonlySet<string> = new Set(['requested', 'failed', 'lost']);

/** Returns the failure that the event reports, or null if there is none or if an earlier event has already reported it. */
export function reportedFailure(event: Extract<JobEvent, { type: 'task' }>): TaskFailure | null {
  return ENDED_BADLY.has(event.state) ? event.failure : null;
}

/**
 * Formats an event.
 * @param rows the job's tasks, which determine whether node names need a port; undefined if the tasks are unknown
 */
export function eventLine(event: JobEvent, terminal: Terminal, rows?: readonly { readonly node: string | null }[]): string {
  switch (event.type) {
    case 'state':
      return [terminal.paint('bold', oneLine(event.state)), oneLine(event.message)].filter((part) => part !== '').join(': ');
    case 'task': {
      const failure = reportedFailure(event);
      const why = failure === null ? '' : `: ${describeFailure(failure, event.role)}`;
      const node =
        event.node === null || (failure !== null && namesNode(failure)) ? '' : rows === undefined ? event.node : nodeName(event.node, rows);
      const where = node === '' ? '' : ` on ${oneLine(node)}`;
      const again = event.attempts > 1 ? `, attempt ${event.attempts}` : '';
      const state = failure !== null && event.state === 'requested' ? 'will restart' : event.state;
      return `${event.role}:${event.index} ${state}${where}${event.generation > 1 ? `, generation ${event.generation}` : ''}${again}${harmless(why)}`;
    }
    case 'metrics':
      return [event.step > 0 ? `step ${event.step}` : '', metricsText(withoutProfile(event.metrics))]
        .filter((part) => part !== '')
        .join('  ');
    case 'checkpoint':
      return `checkpoint of step ${event.step}`;
    case 'notice':
      return terminal.paint('yellow', oneLine(event.message));
  }
}

/**
 * Returns a job's final report: the cause of a failure, the places of checkpoints, summaries and logs, and the results of a succeeded job.
 */
export function reportLines(report: EndedJob, terminal: Terminal): string[] {
  const lines: string[] = [];
  if (report.state === 'succeeded') {
    lines.push(terminal.paint('green', `${report.id} ${report.state}`));
    if (report.message !== '') {
      lines.push(...indentedLines(report.message.trimEnd()));
    }
  } else {
    const paint = report.state === 'killed' ? 'yellow' : 'red';
    lines.push(terminal.paint(paint, `${report.id} ${report.state}`));
    if (report.message !== '') {
      lines.push(...indentedLines(report.message.trimEnd()));
    }
  }
  if (report.checkpointStep > 0 && report.checkpointUri !== '') {
    lines.push(`checkpoints: ${oneLine(report.checkpointUri)} (newest: step ${report.checkpointStep})`);
  }
  if (report.summaryUri !== '' && report.step > 0) {
    lines.push(`summaries: ${oneLine(report.summaryUri)}`);
  }
  lines.push(`logs: tony-ts logs ${report.id}`);
  if (report.state === 'succeeded') {
    for (const [name, value] of Object.entries(withoutProfile(report.metrics))) {
      lines.push(describeMetric(oneLine(name), value));
    }
    lines.push(...profileLine(report));
  }
  return terminal.live ? lines.flatMap((line) => fold(line, terminal.columns - 1)) : lines;
}

/** Formats a step profile, such as `step time: 6.2 ms exchange, 3.6 ms compute; worker:0 was the slowest`. */
function profileLine({ metrics, tasks }: EndedJob): string[] {
  const profile = stepProfile(metrics);
  if (profile === null) {
    return [];
  }
  const parts = profile.activities.map(({ name, ms }) => `${ms.toFixed(1)} ms ${name}`);
  const slowest = tasks.find(({ rank }) => rank !== null && rank === profile.slowestRank);
  return [`step time: ${parts.join(', ')}${slowest === undefined ? '' : `; ${slowest.role}:${slowest.index} was the slowest`}`];
}
