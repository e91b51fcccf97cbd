import { formatBytes } from '../../../conf/values/quantities.ts';
import { type FittedColumn, fittedTable } from '../../terminal/fitted-table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { NodeFacts } from './node-facts.ts';

const bytes = (amount: number | null): string => (amount === null ? '-' : formatBytes(amount));
const column = (title: string, keep: number, cell: (node: NodeFacts) => string, least?: number): FittedColumn<NodeFacts> => ({
  title,
  keep,
  cell: (node) => (node.notProbed === '' ? cell(node) : '-'),
  ...(least === undefined ? {} : { least }),
});

const COLUMNS: readonly FittedColumn<NodeFacts>[] = [
  { title: 'NODE', keep: 10, least: 16, cell: ({ node }) => node },
  column('RUNTIME', 9, ({ runtime }) => runtime || 'no'),
  column('GLIBC', 8, ({ glibc }) => glibc || '-'),
  column('CPU', 5, ({ cpuFlags }) => cpuFlags.filter((flag) => flag !== 'fma').at(-1) ?? '-'),
  column('PYTHON', 4, ({ pythons }) => pythons[0]?.split(' ')[1] ?? '-'),
  column('GPUS', 6, ({ gpus, gpuDriver }) => (gpuDriver === '' ? '-' : String(gpus.length))),
  column('DISK', 3, ({ diskFreeBytes }) => bytes(diskFreeBytes)),
  column('SHM', 1, ({ shmBytes }) => bytes(shmBytes)),
  column('USER', 2, ({ user }) => user || '-'),
  column('PORTS', 7, ({ tried, unreached }) => (tried === 0 ? '-' : `${tried - unreached.length}/${tried}`)),
  column('HDFS', 7, ({ storage }) => (storage === null ? '-' : storage === '' ? 'ok' : 'no')),
];

export function probeTable(nodes: readonly NodeFacts[], terminal: Terminal): string[] {
  return fittedTable(nodes, COLUMNS, terminal);
}
