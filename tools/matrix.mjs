#!/usr/bin/env node
/**
 * `npm run matrix [-- --hadoop 3.3.6,3.5.0] [--profile plain,ha] [--node 20,22]`: runs the long form of the compatibility tests on every
 * combination, and records the results in docs/compatibility.md and README.md. The versions of Node.js share one cluster of each Hadoop
 * version and profile. Combinations that a run does not include keep their earlier result.
 */
import { spawn } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ensureInstalled, ROOT } from './install.mjs';
import { HADOOP_VERSIONS, NODE_MAJORS, PROFILE_NAMES, table, withSummary } from './matrix-table.mjs';

const RESULTS = path.join(ROOT, 'docs', 'compatibility.json');
const PAGE = path.join(ROOT, 'docs', 'compatibility.md');
const README = path.join(ROOT, 'README.md');
/** @type {string} */
const VERSION = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')).version;
const REPORT = path.join(ROOT, '.cache', 'test-reports', 'matrix.json');

const { values } = parseArgs({
  options: {
    hadoop: { type: 'string', default: HADOOP_VERSIONS.join(',') },
    profile: { type: 'string', default: PROFILE_NAMES.join(',') },
    node: { type: 'string', default: NODE_MAJORS.join(',') },
  },
});
const nodes = values.node.split(',').map(Number);
const clusters = values.hadoop.split(',').flatMap((hadoop) => values.profile.split(',').map((profile) => ({ hadoop, profile, nodes })));
for (const [name, given, known] of /** @type {const} */ ([
  ['version of Hadoop', values.hadoop, HADOOP_VERSIONS],
  ['profile', values.profile, PROFILE_NAMES],
  ['major version of Node', values.node, NODE_MAJORS.map(String)],
])) {
  const unknown = given.split(',').find((each) => !known.includes(each));
  if (unknown !== undefined) {
    console.error(`\`${unknown}\` is not a ${name} of the matrix (${known.join(', ')})`);
    process.exit(2);
  }
}

await ensureInstalled();
const { buildAll } = await import('./build.mjs');
await buildAll({ types: false });
await mkdir(path.dirname(REPORT), { recursive: true });
let failed = 0;
for (const cluster of clusters) {
  for (const [node, passed] of await runTests(cluster)) {
    failed += passed ? 0 : 1;
    await record(cluster, node, passed);
  }
}
const count = clusters.length * nodes.length;
console.log(`${count - failed} of ${count} combinations passed; see ${path.relative(ROOT, PAGE)}`);
process.exitCode = failed === 0 ? 0 : 1;

/**
 * Returns for each version of Node.js whether all its tests passed. Each cluster runs in its own process, so that an interrupted run loses
 * only the results of one.
 * @param {typeof clusters[number]} cluster
 * @returns {Promise<Map<number, boolean>>}
 */
async function runTests(cluster) {
  await rm(REPORT, { force: true });
  const vitest = path.join(ROOT, 'node_modules', '.bin', 'vitest');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`];
  const child = spawn(vitest, ['run', '--project', 'own-cluster', ...reporters, 'integration-tests/own-cluster/compatibility.test.ts'], {
    cwd: ROOT,
    env: { ...process.env, TONY_MATRIX: JSON.stringify([cluster]), TONY_PACKAGE_BUILT: '1' },
    stdio: 'inherit',
  });
  await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  const report = await readFile(REPORT, 'utf8').catch(() => '{"testResults":[]}');
  /** @type {{ testResults: { assertionResults: { ancestorTitles: string[], status: string }[] }[] }} */
  const { testResults } = JSON.parse(report);
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  return new Map(
    cluster.nodes.map((node) => {
      const own = tests.filter(({ ancestorTitles }) => ancestorTitles.includes(`Node ${node}`));
      const statuses = new Set(own.map(({ status }) => status));
      if (!statuses.has('passed') && !statuses.has('failed')) {
        throw new Error(
          `no test of Hadoop ${cluster.hadoop}, ${cluster.profile} ran on Node ${node}; nothing is recorded for this cluster`,
        );
      }
      return [node, !statuses.has('failed')];
    }),
  );
}

/**
 * @param {typeof clusters[number]} cluster
 * @param {number} node
 * @param {boolean} passed
 */
async function record({ hadoop, profile }, node, passed) {
  /** @type {import('./matrix-table.mjs').Results} */
  const results = JSON.parse(await readFile(RESULTS, 'utf8').catch(() => '{}'));
  results[`${hadoop} ${profile} ${node}`] = { passed, date: new Date().toISOString().slice(0, 10), version: VERSION };
  await writeFile(RESULTS, `${JSON.stringify(Object.fromEntries(Object.entries(results).sort()), null, 2)}\n`);
  await writeFile(PAGE, table(results));
  await writeFile(README, withSummary(await readFile(README, 'utf8'), results));
}
