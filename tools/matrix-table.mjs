/** Generates docs/compatibility.md and the table in README.md from the recorded results of `npm run matrix`. */

/** @typedef {Record<string, { passed: boolean, date: string, version: string }>} Results by `HADOOP PROFILE NODE`; `version` is that of tony-ts */

/** The newest release of each Hadoop line that is in use. */
export const HADOOP_VERSIONS = ['2.10.2', '3.1.4', '3.2.4', '3.3.6', '3.4.3', '3.5.0'];
export const NODE_MAJORS = [20, 22, 24];
export const PROFILE_NAMES = ['plain', 'privacy', 'ha', 'kerberos', 'tls', 'acls'];

const HEAD = `# Compatibility

\`npm run matrix\` generates this page. For each combination of a Hadoop version and a cluster profile, it starts real
Hadoop daemons and runs the same test on them:

- It runs \`tony-ts doctor\`.
- It trains MNIST with two workers and an evaluator, and kills a worker and the ApplicationMaster during training.
- It checks the job's page, logs, \`tony-ts kill\` and quotas.

Each result shows the version of Node.js on which tony-ts ran. Versions of Node.js that are
tested in the same run share a cluster: the later ones find the runtime that the first one uploaded.

| profile | cluster |
| --- | --- |
| plain | simple authentication |
| privacy | encrypted Hadoop RPC (\`hadoop.rpc.protection\`) |
| ha | two ResourceManagers and two NameNodes with automatic failover |
| kerberos | Kerberos authentication |
| tls | HTTPS with certificates from a private authority |
| acls | one of the two queues accepts only one user. YARN checks ACLs (\`yarn.acl.enable\`) in every profile |

With the profile \`acls\`, the test also checks that users who are not in the \`acls\` of a job can neither view nor kill it,
and that YARN rejects a job in a queue to which its user may not submit.

On a secure cluster, NodeManagers need Hadoop's native library to aggregate logs. The tests download this library with
Maven, but no Maven package contains the library for Hadoop 3.5. To test Hadoop 3.5, provide the library yourself
([development.md](development.md#a-hadoop-cluster-in-a-box)).

In this test, containers run as the NodeManager's user. A separate test of the LinuxContainerExecutor
(\`integration-tests/own-cluster/container-executor.test.ts\`) passed on Hadoop 3.4.3 with and without Kerberos
on 2026-11-27. On the same day and the same version, the tests of the profile \`cgroups\`
(\`integration-tests/long/cgroups.test.ts\`) and of Docker containers (\`integration-tests/long/docker.test.ts\`, with
Podman 4.3.1 in place of Docker) passed. All three tests used a
\`container-executor\` built from Hadoop's sources (3.5.0-SNAPSHOT of 2024-10-18). The results of Kerberos on Hadoop
3.5.0 with Node.js 20 and 24 used a native library from the same sources.

With Hadoop 2.10, 3.1 and 3.2, the test uses ZooKeeper 3.5.10. These versions of Hadoop contain ZooKeeper 3.4, whose
client cannot resolve host names on Java 17.

`;

/** @param {Results} results */
export function table(results) {
  const rows = HADOOP_VERSIONS.map(
    (hadoop) => `| ${[hadoop, ...PROFILE_NAMES.map((profile) => cellText(results, hadoop, profile))].join(' | ')} |`,
  );
  const head = `| Hadoop | ${PROFILE_NAMES.join(' | ')} |\n|${' --- |'.repeat(PROFILE_NAMES.length + 1)}\n`;
  return `${HEAD}${countText(results)}${head}${rows.join('\n')}\n`;
}

/** @param {Results} results */
function countText(results) {
  const all = HADOOP_VERSIONS.length * PROFILE_NAMES.length * NODE_MAJORS.length;
  const run = Object.values(results);
  const passed = run.filter((result) => result.passed).length;
  const versions = versionsOf(results);
  return `The results are of tony-ts ${versions.join(' and ')}.\nOf the ${all} combinations of a Hadoop version, a profile and a version of Node.js, ${run.length} were run and ${passed} passed.\n\n`;
}

/**
 * Returns the versions of tony-ts, oldest first.
 * @param {Results} results
 */
function versionsOf(results) {
  return [...new Set(Object.values(results).map(({ version }) => version))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

const SUMMARY = /(<!-- `npm run matrix` generates this table\. -->\n\n)(?:\|.*\n)+/;

/**
 * Returns the text of README.md with the current results in its table. Each cell lists the major versions of Node.js.
 * @param {string} readme
 * @param {Results} results
 */
export function withSummary(readme, results) {
  const rows = HADOOP_VERSIONS.map(
    (hadoop) => `| ${[hadoop, ...PROFILE_NAMES.map((profile) => summaryText(results, hadoop, profile))].join(' | ')} |\n`,
  );
  const head = `| Hadoop | ${PROFILE_NAMES.join(' | ')} |\n|${' --- |'.repeat(PROFILE_NAMES.length + 1)}\n`;
  if (!SUMMARY.test(readme)) {
    throw new Error('README.md has no table after the comment about `npm run matrix`');
  }
  return readme.replace(SUMMARY, (_, start) => `${start}${head}${rows.join('')}`);
}

/**
 * @param {Results} results
 * @param {string} hadoop
 * @param {string} profile
 */
function summaryText(results, hadoop, profile) {
  const nodes = NODE_MAJORS.filter((node) => results[`${hadoop} ${profile} ${node}`] !== undefined);
  const failed = nodes.filter((node) => !results[`${hadoop} ${profile} ${node}`]?.passed);
  return [...nodes.filter((node) => !failed.includes(node)), ...failed.map((node) => `**${node} failed**`)].join(', ') || 'not run';
}

/**
 * @param {Results} results
 * @param {string} hadoop
 * @param {string} profile
 */
function cellText(results, hadoop, profile) {
  const areSeveral = versionsOf(results).length > 1;
  const own = NODE_MAJORS.flatMap((node) => {
    const result = results[`${hadoop} ${profile} ${node}`];
    return result === undefined
      ? []
      : [`${result.passed ? 'passed' : '**failed**'} (${areSeveral ? `tony-ts ${result.version}, ` : ''}Node ${node}, ${result.date})`];
  });
  return own.length === 0 ? 'not run' : own.join('<br>');
}
