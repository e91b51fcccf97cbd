/**
 * `npm run bench -- help [--rounds N] [--output json]`: measures `tony-ts --help`, the `--help` of each command, and an empty Node.js program (median in
 * ms).
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { showFigures } from './figures.ts';
import { median } from './median.ts';

const GOAL_MS = 500;
const COMMAND = path.join(process.cwd(), 'dist', 'tony-ts.js');

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, output: { type: 'string', default: 'text' } } });
const rounds = Math.max(1, Number(values.rounds));

function run(words: readonly string[]): { readonly ms: number; readonly stdout: string } {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  if (status !== 0) {
    throw new Error(`${words.join(' ')} ended with ${status}: ${stderr}`);
  }
  return { ms: performance.now() - started, stdout };
}

const commands = [...run([COMMAND, '--help']).stdout.matchAll(/^ +tony-ts ([a-z]+)/gm)].map(([, command = '']) => command);
const lines = new Map([
  ['node, an empty program', ['-e', '0']],
  ['tony-ts --help', [COMMAND, '--help']],
  ...commands.map((command): [string, string[]] => [`tony-ts ${command} --help`, [COMMAND, command, '--help']]),
]);
const times = new Map([...lines.keys()].map((name): [string, number[]] => [name, []]));
for (let round = 0; round < rounds; round++) {
  for (const [name, words] of lines) {
    times.get(name)?.push(run(words).ms);
  }
}
const medians = [...times].map(([what, all]) => ({ what, value: median(all), unit: 'ms' }));
const [empty, ...helps] = medians;
const slowest = helps.reduce((one, other) => (other.value > one.value ? other : one));
const goal = { atMost: GOAL_MS };
showFigures(
  'help',
  [
    ...(empty === undefined ? [] : [empty]),
    { what: `median of ${helps.length} commands with --help`, value: median(helps.map(({ value }) => value)), unit: 'ms', goal },
    { ...slowest, what: `the slowest: ${slowest.what}`, goal },
  ],
  values.output,
);
