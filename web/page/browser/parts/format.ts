import { formatBytes, formatNumber } from '../../../../conf/values/quantities.ts';
import { formatDuration } from '../../../../conf/values/units.ts';

export { formatBytes, formatNumber };

/** Formats a count: 12_345_678 -> `12,345,678`. */
export function formatCount(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en-US') : formatNumber(value);
}

/** Formats a count with its noun: `1 task`, `200 tasks`, or `3 of 200 tasks` if `of` is larger than `count`. */
export function formatNumberOf(count: number, noun: string, of = count): string {
  return `${formatCount(count)}${of === count ? '' : ` of ${formatCount(of)}`} ${noun}${of === 1 ? '' : 's'}`;
}

/** Formats a duration in whole seconds, so that the text for a growing duration changes only once a second. */
export function formatElapsed(ms: number): string {
  return formatDuration(Math.max(0, Math.floor(ms / 1000) * 1000)).replace(/^0 ms$/, '0 s');
}

/** Formats a duration below a minute in tenths of a second, because startup phases can be shorter than a second. */
export function formatSpan(ms: number): string {
  return ms < 60_000 ? formatDuration(Math.max(0, Math.round(ms / 100) * 100)).replace(/^0 ms$/, '0 s') : formatElapsed(ms);
}

/** Formats the mean time of a step or one of its phases: `0.5 ms`, `17 ms`, `1.2 s`. */
export function formatStepTime(ms: number): string {
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function formatAgo(ms: number): string {
  return ms < 1000 ? 'now' : `${formatElapsed(ms)} ago`;
}

export function formatShare(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Formats a time: `14:03:09`, in the browser's time zone. */
export function formatClock(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

/** Formats a date and time: `2026-11-21 14:03:09`. */
export function formatMoment(at: number): string {
  const date = new Date(at);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
  return `${day} ${formatClock(at)}`;
}

/**
 * Formats a tick label on a time axis. The label is the date if `step` is at least a day, and otherwise the time. The time omits the
 * seconds if `step` is at least a minute.
 * @param step time between two ticks, in seconds
 */
export function formatMark(at: number, step: number): string {
  if (step >= 86_400) {
    return formatMoment(at).slice(5, 10);
  }
  return step >= 60 ? formatClock(at).slice(0, 5) : formatClock(at);
}

/** Formats a tag as words: `train/examples_per_second` -> `train examples per second`, and also a program's own `testLoss` -> `test loss`. */
export function spoken(tag: string): string {
  return tag
    .replace(/([a-z\d])([A-Z])(?=[a-z])/g, (_, before: string, after: string) => `${before} ${after.toLowerCase()}`)
    .replace(/[/_]+/g, ' ')
    .trim();
}

/**
 * Formats a metric value: accuracies as percentages, large numbers without decimals. If `step` is given, formats an axis label, without
 * trailing zeros.
 */
export function formatMetric(name: string, value: number | null, step?: number): string {
  // JSON represents NaN as null.
  if (value === null) {
    return 'NaN';
  }
  if (/(^|[/_ ])acc(uracy)?$/i.test(name) && value >= 0 && value <= 1) {
    return `${step === undefined ? (value * 100).toFixed(2) : Number((value * 100).toFixed(4))} %`;
  }
  return Math.abs(value) >= 1000 && Number.isFinite(value) ? formatCount(Math.round(value)) : formatNumber(value);
}
