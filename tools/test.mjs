#!/usr/bin/env node
/**
 * `npm test [-- checks | unit | integration [FILTER ...]]`: runs the set-up, then every check and test or only one group. `npm test --
 * changed [COMMIT]`: runs the checks, and the tests that import files changed since the commit (default: uncommitted changes). `npm test
 * -- long [FILTER ...]`: runs the tests that are too slow for every run, and the property tests with fresh examples. Requires only Node, npm, Python 3, Java and Maven on a fresh
 * machine. The last line of the output is `N passed, N failed`.
 */
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { hadoopJars } from '../integration-tests/cluster/jars.mjs';
import { ensureNativeLibrary } from '../integration-tests/cluster/native-library.mjs';
import { ensureInstalled, ROOT, runInherited } from './install.mjs';

const PARTS = ['checks', 'unit', 'integration', 'long', 'changed'];
const REPORTS = path.join(ROOT, '.cache', 'test-reports');

/** @typedef {{ name: string, passed: number, failed: number, skipped: number, seconds: number, failures: string[] }} Outcome */

const [part, ...words] = process.argv.slice(2);
const filters = part === 'changed' ? [] : words;
/** Vitest arguments that select the tests that import changed files. */
const changed = part === 'changed' ? [words[0] === undefined ? '--changed' : `--changed=${words[0]}`] : [];
if (part !== undefined && !PARTS.includes(part)) {
  console.error(`there is no part \`${part}\`: npm test -- ${PARTS.join(' | ')} [FILTER ... | COMMIT]`);
  process.exit(2);
}
/** @param {string} name */
const wanted = (name) => (part === undefined ? name !== 'long' : part === name || (part === 'changed' && name !== 'long'));
/** Whether this run starts Hadoop clusters. */
const startsClusters = wanted('integration') || wanted('long');

/** @type {Outcome[]} */
const outcomes = [];
// The download starts first, because it uses the network while the other steps use the CPU.
const jars = startsClusters ? download((line) => console.log(`[hadoop] ${line}`)) : null;
// The code below awaits the promise. Without this handler, an earlier failure would end the process as an unhandled rejection.
jars?.catch(() => {});

let isBuilt = false;
const hasDependencies = await check('dependencies', async () => {
  isBuilt = await ensureInstalled();
});
if (hasDependencies) {
  const built = isBuilt || (await check('build', async () => (await import('./build.mjs')).buildAll({ log: console.log })));
  // Building the runtime mostly waits for downloads, so the build runs at the same time as the unit tests.
  const runtime = built && startsClusters ? runInherited(process.execPath, ['dist/tony-ts.js', 'runtime', 'build']) : null;
  runtime?.catch(() => {});
  if (wanted('checks')) {
    // The generated types must be current, so that the compiler finds code that does not follow a .proto file.
    await check('messages', () => runInherited(process.execPath, ['tools/protos.mjs', '--check']));
    await check('types', () => runTool('tsc', ['--noEmit']));
    await check('types of the pages', () => runTool('tsc', ['--noEmit', '-p', 'web/page/browser']));
    await check('lint and format', () => runTool('biome', ['ci', `--colors=${process.stdout.isTTY ? 'force' : 'off'}`, '.']));
  }
  const site = wanted('checks') ? buildSite() : null;
  site?.catch(() => {});
  if (wanted('unit')) {
    outcomes.push(await vitest('unit'));
  }
  if (site !== null) {
    await check('site', () => site);
  }
  if (startsClusters && built) {
    const prepared = [await check('hadoop', () => jars), await check('runtime', () => runtime)];
    if (prepared.every(Boolean)) {
      const all = wanted('long') ? await longTests() : await integrationTests();
      outcomes.push(...all);
      const none = filters.length > 0 && all.every(({ passed, failed, skipped }) => passed + failed + skipped === 0);
      if (none) {
        await check('filter', () => Promise.reject(new Error(`no test has ${filters.join(' or ')} in its file path`)));
      }
    }
  }
}
summarize();

/**
 * Runs the project `cluster` at the same time as the other projects, because tests on a cluster mostly wait. Prints the output of the other
 * projects when it is complete.
 */
async function integrationTests() {
  const later = async () => [await vitest('local', { later: true }), await vitest('own-cluster', { later: true })];
  const [shared, others] = await Promise.all([vitest('cluster'), later()]);
  return [shared, ...others];
}

/** Runs the long tests. Without a filter, also runs the unit tests with fresh examples for the property tests. */
async function longTests() {
  const properties = filters.length === 0 ? [await vitest('unit', { seed: 'fresh' })] : [];
  return [...properties, await vitest('long')];
}

/** Builds the site of the documents, which fails if a link is dead. Most of the time, the unit tests run meanwhile. */
async function buildSite() {
  await mkdir(REPORTS, { recursive: true });
  const file = path.join(REPORTS, 'site.txt');
  const output = await open(file, 'w');
  try {
    await runTool('vitepress', ['build', 'tools/site'], { output: output.fd });
  } catch (error) {
    throw new Error(`${/** @type {Error} */ (error).message}\n${await readFile(file, 'utf8')}`);
  } finally {
    await output.close();
  }
}

/**
 * Downloads what every test cluster needs.
 * @param {(line: string) => void} log
 */
async function download(log) {
  await hadoopJars({ log });
  await ensureNativeLibrary(log);
}

/**
 * @param {string} name
 * @param {() => unknown} action rejects when the check fails
 * @returns {Promise<boolean>}
 */
async function check(name, action) {
  heading(name);
  const started = performance.now();
  /** @type {string[]} */
  const failures = [];
  try {
    await action();
  } catch (error) {
    failures.push(/** @type {Error} */ (error).message);
    console.error(failures[0]);
  }
  const failed = failures.length;
  outcomes.push({ name, passed: 1 - failed, failed, skipped: 0, seconds: secondsSince(started), failures });
  return failed === 0;
}

/**
 * @param {'unit' | 'cluster' | 'own-cluster' | 'local' | 'long'} project
 * @param {{ later?: boolean, seed?: string }} [options] later: prints the output after the run has ended; seed: see property-seed.ts
 * @returns {Promise<Outcome>}
 */
async function vitest(project, { later = false, seed = '' } = {}) {
  const name = `${project} tests`;
  if (!later) {
    heading(name);
  }
  const started = performance.now();
  const report = path.join(REPORTS, `${project}.json`);
  await mkdir(REPORTS, { recursive: true });
  await rm(report, { force: true });
  const reporters = ['--reporter=default', `--reporter=${path.join(ROOT, 'tools', 'test-report.mjs')}`];
  // The filter may match only files of another project.
  const args = [
    'run',
    '--project',
    project,
    ...reporters,
    ...(filters.length + changed.length > 0 ? ['--passWithNoTests'] : []),
    ...changed,
    ...filters,
  ];
  /** @type {Error | null} */
  let ending = null;
  const output = later ? await open(path.join(REPORTS, `${project}.txt`), 'w') : null;
  await runTool('vitest', args, { output: output?.fd, env: { TONY_TEST_SEED: seed, TONY_TEST_REPORT: report } }).catch((error) => {
    ending = error;
  });
  await output?.close();
  if (later) {
    heading(name);
    console.log(await readFile(path.join(REPORTS, `${project}.txt`), 'utf8'));
  }
  const tests = await readReport(report);
  // A run that ended without a report, or in spite of one that has no failure, counts as one failed test.
  if (ending !== null && tests.failed === 0) {
    tests.failed = 1;
    tests.failures.push(/** @type {Error} */ (ending).message);
  }
  return { name, ...tests, seconds: secondsSince(started) };
}

/**
 * Reads what test-report.mjs has written.
 * @param {string} report
 * @returns {Promise<{ passed: number, failed: number, skipped: number, failures: string[] }>}
 */
async function readReport(report) {
  return JSON.parse(await readFile(report, 'utf8').catch(() => '{"passed":0,"failed":0,"skipped":0,"failures":[]}'));
}

/**
 * @param {string} name
 * @param {string[]} args
 * @param {{ output?: number | undefined, env?: Record<string, string> }} [options] output: file descriptor for its output; default: this
 *   process's output
 */
function runTool(name, args, { output, env: more = {} } = {}) {
  // The integration tests use the package that this run has built.
  const env = { ...process.env, TONY_PACKAGE_BUILT: '1', ...more };
  return runInherited(path.join(ROOT, 'node_modules', '.bin', name), args, { timeoutMs: 75 * 60_000, env, output });
}

function summarize() {
  heading('summary');
  for (const { name, passed, failed, skipped, seconds, failures } of outcomes) {
    const counts = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
    console.log(`${name.padEnd(20)} ${counts.padEnd(32)} ${seconds.toFixed(1)} s`);
    for (const failure of failures) {
      console.log(`  FAILED ${brief(failure)}`);
    }
  }
  /** @param {'passed' | 'failed' | 'skipped'} count */
  const sum = (count) => outcomes.reduce((total, outcome) => total + outcome[count], 0);
  const skipped = sum('skipped');
  console.log(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  process.exitCode = sum('failed') > 0 ? 1 : 0;
}

/**
 * Returns the failure's name and message. The summary must suffice to investigate the failure, because CI may keep only the end of a long
 * output.
 * @param {string} failure
 */
function brief(failure) {
  const lines = stripVTControlCharacters(failure)
    .split('\n')
    .filter((line) => line.trim() !== '' && !/node_modules|node:internal/.test(line));
  return lines
    .map((line, index) => (index === 0 ? line : `    ${line.slice(0, 240)}`))
    .slice(0, 16)
    .join('\n');
}

/** @param {string} text */
function heading(text) {
  console.log(`\n== ${text} ==`);
}

/** @param {number} started */
function secondsSince(started) {
  return (performance.now() - started) / 1000;
}
