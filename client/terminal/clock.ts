/** Formats ms since the epoch as `2026-11-21 14:03`. Returns `-` if the time is unknown. */
export function shortTime(ms: number): string {
  const time = new Date(ms);
  if (Number.isNaN(time.getTime()) || ms <= 0) {
    return '-';
  }
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

/** Formats ms since the epoch as `2026-11-21 14:03:44`. Returns `-` if the time is unknown. */
export function fullTime(ms: number): string {
  const short = shortTime(ms);
  return short === '-' ? short : `${short}:${two(new Date(ms).getSeconds())}`;
}

/** Formats ms since the epoch as `14:03:44`. */
export function clockTime(ms: number): string {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? '--:--:--' : `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
