import { parseMemory } from '../../conf/values/units.ts';
import { splitList } from './draft-files.ts';

const DEFAULT_MEMORY = '2g';

/** Parses a memory size in TonY's format, for example `2g`, `2048m`, or a number of MiB. */
export function memoryText(text: string = DEFAULT_MEMORY): string {
  const size = /^\d+$/.test(text) ? `${text}m` : text.toLowerCase();
  return parseMemory(size) === undefined ? text : size;
}

export function optionalMemory(text: string | undefined): string | undefined {
  return text === undefined ? undefined : memoryText(text);
}

export function number(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Parses a positive number. Returns undefined for invalid numbers, and for -1 and 0, which mean "no limit" in TonY. */
export function positive(text: string | undefined): number | undefined {
  return number(text) || undefined;
}

/** Parses a list in Hadoop's format, for example `A=1,B=2`. */
export function assignments(text = ''): Record<string, string> {
  return Object.fromEntries(
    splitList(text).flatMap((part) => {
      const equals = part.indexOf('=');
      return equals < 1 ? [] : [[part.slice(0, equals), part.slice(equals + 1)]];
    }),
  );
}
