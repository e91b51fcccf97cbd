/** Formats a number of bytes with decimal prefixes, which are common for disks and networks. For example, 12_345 becomes `12.3 kB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) {
    return `${Math.round(bytes)} B`;
  }
  const units = ['kB', 'MB', 'GB', 'TB', 'PB'];
  let amount = bytes / 1000;
  let unit = 0;
  // toFixed rounds 999.95 to `1000.0`. Use the next larger unit instead.
  while (amount >= 999.95 && unit < units.length - 1) {
    amount /= 1000;
    unit++;
  }
  return `${amount.toFixed(1)} ${units[unit]}`;
}

/** Formats a count with its noun, for example `1 node` or `3 nodes`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** Rounds to four significant digits and omits trailing zeros. For example, 0.123456 becomes `0.1235`, and 12 becomes `12`. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) {
    return String(value);
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e15) {
    return String(value);
  }
  return String(Number(value.toPrecision(4)));
}

/** Formats a metric for display. For example, `test/accuracy` with the value 0.9871 becomes `test accuracy: 98.71 %`. */
export function describeMetric(name: string, value: number): string {
  const spoken = name.replace(/[/_]+/g, ' ');
  const share = /(^|[/_ ])acc(uracy)?$/i.test(name) && value >= 0 && value <= 1;
  return `${spoken}: ${share ? `${(value * 100).toFixed(2)} %` : formatNumber(value)}`;
}
