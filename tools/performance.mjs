/** Generates the tables of docs/performance.md from the recorded results of `npm run bench -- NAME --record`. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ROOT } from './install.mjs';

/** @typedef {{ benchmark: string, what: string, value: number, unit: string, goal?: string, isMet?: boolean, detail?: string }} Figure as benchmarks/figures.ts prints it */
/** @typedef {{ date: string, commit: string, machine: string, figures: Figure[] }} Run */
/** @typedef {Record<string, Run>} Runs by benchmark */

const JSON_FILE = path.join(ROOT, 'docs', 'performance.json');
const PAGE = path.join(ROOT, 'docs', 'performance.md');
const BEGIN = '<!-- `npm run bench -- all --record` generates the rest of this page. -->\n';

/**
 * Replaces the recorded results of a benchmark, and generates the page again.
 * @param {string} benchmark
 * @param {Run} run
 */
export async function record(benchmark, run) {
  const runs = { ...(await recorded()), [benchmark]: run };
  await writeFile(JSON_FILE, `${JSON.stringify(runs, null, 2)}\n`);
  await writeFile(PAGE, withTables(await readFile(PAGE, 'utf8'), runs));
}

/** @returns {Promise<Runs>} */
export async function recorded() {
  return JSON.parse(await readFile(JSON_FILE, 'utf8'));
}

/**
 * @param {string} page
 * @param {Runs} runs
 */
export function withTables(page, runs) {
  const at = page.indexOf(BEGIN);
  if (at === -1) {
    throw new Error(`docs/performance.md has no line ${BEGIN}`);
  }
  return `${page.slice(0, at)}${BEGIN}${Object.keys(runs)
    .sort()
    .map((name) => section(name, runs[name]))
    .join('')}`;
}

/**
 * @param {string} name
 * @param {Run} [run]
 */
function section(name, run) {
  const { date, commit, machine, figures } = /** @type {Run} */ (run);
  const rows = figures.map(({ what, value, unit, goal, isMet, detail }) => {
    const verdict = goal === undefined ? '' : `${goal.replace('>=', '≥').replace('<=', '≤')}, ${isMet ? 'met' : '**missed**'}`;
    return `| ${what} | ${unit === 'x' ? value : `${value} ${unit}`.trim()} | ${verdict} | ${detail ?? ''} |\n`;
  });
  const head = '| what | result | goal | details |\n| --- | --- | --- | --- |\n';
  return `\n### ${name}\n\nMeasured on ${date} at commit ${commit}, ${machine}.\n\n${head}${rows.join('')}`;
}
