import { variableName } from '../../conf/job-values.ts';
import { parseMemory } from '../../conf/values/units.ts';
import { splitList } from './draft-files.ts';

const DEFAULT_MEMORY = '2g';

/**
 * Parses a memory size in TonY's format: a number of MiB, or a whole number and a unit. TonY ignores what follows the unit, as in `2gb`.
 */
export function memoryText(text: string = DEFAULT_MEMORY): string {
  const [, number, unit = 'm'] = /^(\d+)(?:([mg]).*)?$/is.exec(text) ?? [];
  const size = number === undefined ? text.toLowerCase() : `${number}${unit.toLowerCase()}`;
  return parseMemory(size) === undefined ? text : size;
}

export function optionalMemory(text: string | undefined): string | undefined {
  return text === undefined ? undefined : memoryText(text);
}

export function number(text: string | undefined): number | undefined {
  return text !== undefined && isWhole(text) && Number(text) >= 0 ? Number(text) : undefined;
}

/** Returns true for a whole number in the notations that Hadoop accepts. */
export function isWhole(text: string): boolean {
  return /^(-?\d+|0x[\da-f]+)$/i.test(text);
}

/** Parses a positive number. Returns undefined for invalid numbers, and for -1 and 0, which mean "no limit" in TonY. */
export function positive(text: string | undefined): number | undefined {
  return number(text) || undefined;
}

/** Parses a boolean as Hadoop does: without regard to case, and with the default for every other text. */
export function isTrue(text: string | undefined, fallback = false): boolean {
  const value = text?.toLowerCase();
  return value === 'true' || (value !== 'false' && fallback);
}

export interface ReadVariables {
  readonly variables: Readonly<Record<string, string>>;
  /** Names of variables that TonY sets to an empty text, because the entry has no equals sign. */
  readonly empty: readonly string[];
  /** Entries whose names job.yaml does not accept. */
  readonly refused: readonly string[];
}

/** Parses entries such as `A=1`. */
export function readVariables(entries: readonly string[]): ReadVariables {
  const variables = new Map<string, string>();
  const empty: string[] = [];
  const refused: string[] = [];
  for (const entry of entries) {
    const equals = entry.indexOf('=');
    const name = equals === -1 ? entry : entry.slice(0, equals);
    if (!variableName.safeParse(name).success) {
      refused.push(entry);
      continue;
    }
    if (equals === -1) {
      empty.push(name);
    }
    variables.set(name, equals === -1 ? '' : entry.slice(equals + 1));
  }
  return { variables: Object.fromEntries(variables), empty, refused };
}

/** Parses a list of variables in Hadoop's format, for example `A=1,B=2`. */
export function listedVariables(text = ''): ReadVariables {
  return readVariables(splitList(text));
}
