/** One amount, for example `512m`, `1.5g`, `2 GiB` or `4Gi`. All units are powers of two. */
export const MEMORY = /^\d+(\.\d+)?\s*[mMgGtT]([iI]?[bB]|[iI])?$/;
/** One or more amounts, for example `90s` or `1h30m`. */
export const DURATION = /^(\d+(\.\d+)?\s*([mM][sS]|[sSmMhHdD])\s*){1,5}$/;
/** Number of bytes in 1 MiB, the unit of memory in Hadoop's messages and configuration. */
export const MEBIBYTE = 1024 * 1024;

const MEBIBYTES: Readonly<Record<string, number>> = { m: 1, g: 1024, t: 1024 * 1024 };
const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses a memory size. Returns MiB, or undefined if the text is invalid or has no unit. */
export function parseMemory(text: string): number | undefined {
  const written = text.trim();
  if (!MEMORY.test(written)) {
    return undefined;
  }
  const unit = /[a-z]/i.exec(written)?.[0].toLowerCase() ?? '';
  const mebibytes = Math.ceil(Number.parseFloat(written) * (MEBIBYTES[unit] ?? 0));
  return mebibytes > 0 ? mebibytes : undefined;
}

/** Parses a duration, as the sum of its amounts. Returns ms, or undefined if the text is invalid or has no unit. */
export function parseDuration(text: string): number | undefined {
  const written = text.trim().toLowerCase();
  if (!DURATION.test(written)) {
    return undefined;
  }
  const amounts = [...written.matchAll(/([\d.]+)\s*([a-z]+)\s*/gy)];
  return Math.round(amounts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (MILLISECONDS[unit] ?? 0), 0));
}

/** Formats MiB for display. For example, 1536 becomes `1.5 GiB`, and 512 becomes `512 MiB`. */
export function formatMemory(mebibytes: number): string {
  if (mebibytes < 1024) {
    return `${mebibytes} MiB`;
  }
  return `${Number((mebibytes / 1024).toFixed(1))} GiB`;
}

/** Formats ms for display. For example, 90_000 becomes `1 min 30 s`, and 1500 becomes `1.5 s`. From two days on, the text omits minutes. */
export function formatDuration(ms: number): string {
  if (ms < 1000) {
    return `${Math.round(ms)} ms`;
  }
  if (ms < 60_000) {
    return `${Number((ms / 1000).toFixed(1))} s`;
  }
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.round((ms % 60_000) / 1000);
  if (minutes < 60) {
    return seconds === 0 ? `${minutes} min` : `${minutes} min ${seconds} s`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) {
    return hours % 24 === 0 ? `${hours / 24} d` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/** Formats MiB without rounding, in job.yaml syntax. For example, 4096 becomes `4g`, and 1536 becomes `1536m`. */
export function writtenMemory(mebibytes: number): string {
  return mebibytes % 1024 === 0 ? `${mebibytes / 1024}g` : `${mebibytes}m`;
}

/** Formats ms without rounding, in job.yaml syntax. For example, 90_000 becomes `90s`, and 3_600_000 becomes `1h`. */
export function writtenDuration(ms: number): string {
  const [unit, factor] = Object.entries(MILLISECONDS)
    .filter(([, each]) => ms % each === 0)
    .at(-1) ?? ['ms', 1];
  return ms === 0 ? '0s' : `${ms / factor}${unit}`;
}
