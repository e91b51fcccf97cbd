import { parseMemory } from '../../conf/values/units.ts';
import { splitList } from './draft-files.ts';

const DEFAULT_MEMORY = '2g';

/** Parses a memory size in TonY's format: `2g`, `2048m`, or a number of MiB. */
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

/** Returns undefined for -1 and 0, with which TonY expresses "no limit", and for invalid numbers. */
export function positive(text: string | undefined): number | undefined {
  return number(text) || undefined;
}

/** Parses a list in Hadoop's format, such as `A=1,B=2`. */
export function assignments(text = ''): Record<string, string> {
  return Object.fromEntries(
    splitList(text).flatMap((part) => {
      const equals = part.indexOf('=');
      return equals < 1 ? [] : [[part.slice(0, equals), part.slice(equals + 1)]];
    }),
  );
}
