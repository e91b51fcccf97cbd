#!/usr/bin/env node
/**
 * `npm test [-- checks | unit | integration [FILTER ...]]`: all set-up, then every check and test; or one part of them.
 * Runs on a fresh machine with Node, npm, Python 3, Java and Maven. Its last line is `N passed, N failed`.
 */
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { hadoopJars } from '../integration-tests/cluster/jars.mjs';
import { ensureInstalled, ROOT, runInherited } from './install.mjs';

const PARTS = ['checks', 'unit', 'integration'];
const REPORTS = path.join(ROOT, '.cache', 'test-reports');

/** @typedef {{ name: string, passed: number, failed: number, skipped: number, seconds: number, failures: string[] }} Outcome */

const [part, ...filters] = process.argv.slice(2);
if (part !== undefined && !PARTS.includes(part)) {
  console.error(`there is no part \`${part}\`: npm test -- ${PARTS.join(' | ')} [FILTER ...]`);
  process.exit(2);
}
/** @param {string} name */
const wanted = (name) => part === undefined || part === name;

/** @type {Outcome[]} */
const outcomes = [];
// Begun first: it waits for the network while everything else waits for the processor.
const jars = wanted('integration') ? hadoopJars({ log: (line) => console.log(`[hadoop] ${line}`) }) : null;
jars?.catch(() => {}); // judged below, where it is needed

if (await check('dependencies', ensureInstalled)) {
  const built = await check('build', async () => (await import('./build.mjs')).buildAll({ log: console.log }));
  if (wanted('checks')) {
    await check('types', () => runTool('tsc', ['--noEmit']));
    await check('types of the pages', () => runTool('tsc', ['--noEmit', '-p', 'web/page/browser']));
    await check('lint and format', () => runTool('biome', ['ci', `--colors=${process.stdout.isTTY ? 'force' : 'off'}`, '.']));
  }
  if (wanted('unit')) await vitest('unit');
  if (wanted('integration') && built) {
    const cluster = await check('hadoop', () => jars);
    const runtime = await check('runtime', () => runInherited(process.execPath, ['dist/tony-ts.js', 'runtime', 'build']));
    if (cluster && runtime) await vitest('integration');
  }
}
summarize();

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

/** @param {'unit' | 'integration'} project */
async function vitest(project) {
  heading(`${project} tests`);
  const started = performance.now();
  const report = path.join(REPORTS, `${project}.json`);
  await mkdir(REPORTS, { recursive: true });
  await rm(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  /** @type {Error | null} */
  let ending = null;
  await runTool('vitest', ['run', '--project', project, ...reporters, ...filters]).catch((error) => {
    ending = error;
  });
  const tests = await readReport(report);
  // A file that does not load, or a hook that fails behind the last test, is no failed test: it counts as one all the same.
  if (ending !== null && tests.failed === 0) {
    tests.failed = 1;
    tests.failures.push(/** @type {Error} */ (ending).message);
  }
  outcomes.push({ name: `${project} tests`, ...tests, seconds: secondsSince(started) });
}

/** @param {string} report */
async function readReport(report) {
  /** @type {{ testResults: { name: string, status: string, message?: string, assertionResults: { status: string, fullName: string, failureMessages: string[] }[] }[] }} */
  const { testResults } = JSON.parse(await readFile(report, 'utf8').catch(() => '{"testResults":[]}'));
  const tests = { passed: 0, failed: 0, skipped: 0, failures: /** @type {string[]} */ ([]) };
  for (const { name, status, message, assertionResults } of testResults) {
    const file = path.relative(ROOT, name);
    for (const { status: result, fullName, failureMessages } of assertionResults) {
      if (result === 'passed') tests.passed += 1;
      else if (result === 'failed') tests.failures.push([`${file}: ${fullName}`, ...failureMessages].join('\n'));
      else tests.skipped += 1;
    }
    // A hook that failed, or a file that does not load.
    if (status === 'failed' && !assertionResults.some((each) => each.status === 'failed')) tests.failures.push(`${file}\n${message ?? ''}`);
  }
  tests.failed = tests.failures.length;
  return tests;
}

/**
 * @param {string} name
 * @param {string[]} args
 */
function runTool(name, args) {
  return runInherited(path.join(ROOT, 'node_modules', '.bin', name), args, { timeoutMs: 50 * 60_000 });
}

function summarize() {
  heading('summary');
  for (const { name, passed, failed, skipped, seconds, failures } of outcomes) {
    const counts = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
    console.log(`${name.padEnd(20)} ${counts.padEnd(32)} ${seconds.toFixed(1)} s`);
    for (const failure of failures) console.log(`  FAILED ${brief(failure)}`);
  }
  /** @param {'passed' | 'failed' | 'skipped'} count */
  const sum = (count) => outcomes.reduce((total, outcome) => total + outcome[count], 0);
  const skipped = sum('skipped');
  console.log(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  process.exitCode = sum('failed') > 0 ? 1 : 0;
}

/**
 * What failed and how: where only the end of a long output is kept, the summary must be enough to go on.
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
