import { type FittedColumn, fittedTable } from '../terminal/fitted-table.ts';
import { clip, harmless, type Terminal, wrap } from '../terminal/terminal.ts';
import type { ImportedJob, ImportedKey } from './import-tony.ts';

/**
 * Formats an import result as a table of the converted keys, followed by the keys whose meaning differs, the keys that were not converted,
 * the defaults that differ, and what the user must add to job.yaml.
 */
export function importLines({ keys, differences, missing }: ImportedJob, terminal: Terminal, file = 'job.yaml'): string[] {
  const lost = keys.filter(({ to }) => to === null);
  const carried = keys.filter(({ to }) => to !== null);
  const width = Math.max(40, terminal.columns - 1);
  const remark = ({ key, value, remark }: ImportedKey): string[] => [
    `  ${terminal.paint('bold', harmless(key))} = ${clip(harmless(value), Math.max(10, width - key.length - 5))}`,
    ...wrap(remark, width - 6, 10).map((line) => `      ${line}`),
  ];
  const sentence = (text: string) => wrap(harmless(text), width - 4, 10).map((line, at) => `${at === 0 ? '  ' : '    '}${line}`);
  const columns: FittedColumn<ImportedKey>[] = [
    { title: 'TONY', cell: ({ key }) => key, least: 8, keep: 1 },
    { title: 'VALUE', cell: ({ value }) => (value.length > 20 ? `${value.slice(0, 19)}…` : value), least: 5, keep: 2 },
    { title: 'JOB.YAML', cell: ({ to }) => to ?? '', least: 8, keep: 3 },
  ];
  const different = carried.filter((each) => each.remark !== '');
  return [
    `Converted ${carried.length} of ${keys.length} keys to ${file}.`,
    ...(carried.length === 0 ? [] : fittedTable(carried, columns, terminal)),
    ...(different.length === 0 ? [] : ['', 'Converted with differences:', ...different.flatMap(remark)]),
    ...(lost.length === 0 ? [] : ['', 'Not converted:', ...lost.flatMap(remark)]),
    ...(differences.length === 0 ? [] : ['', 'Defaults that differ:', ...differences.flatMap(sentence)]),
    ...(missing.length === 0 ? [] : ['', terminal.paint('yellow', `Still needed in ${file}:`), ...missing.flatMap(sentence)]),
  ];
}
