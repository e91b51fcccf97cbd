import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { frozen } from '../../conf/job.fixture.ts';
import type { Job } from '../../conf/job.ts';
import { jobJsonSchema } from '../../conf/job-schema.ts';
import { withFinalValues } from '../../conf/resolve/final-values.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { parseSite } from '../../conf/resolve/site.ts';
import type { JsonSchema } from '../../conf/values/json-schema.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { applicationOf } from './application.ts';
import type { StagedParts } from './parts.ts';

const SITE = `final:
  queue: research
  runtime: RUNTIME
  env: { FIXED: site }
  roles: { '*': { instances: 2, resources: { memory: 1g, vcores: 1, gpus: 0, nec.com/ve: 0 }, nodeLabel: cpu, docker: null, restart: { maxRestarts: 1 } } }
  gang: { timeout: 2m }
  heartbeat: { interval: 2s, missed: 9 }
  checkpoint: { everySteps: 10, keep: 2 }
  tensorboard: { resources: { memory: 1g } }
  wire: { security: none }
  timeout: 1h
  acls: { view: { users: [auditor], groups: [] }, modify: { users: [auditor], groups: [] } }
  remoteAccess: false
  master: { resources: { memory: 1g, vcores: 1 }, nodeLabel: cpu, docker: null, env: { KRB5_CONFIG: /etc/krb5.conf }, logLevel: info, failureWindow: 1h, startTimeout: 5m }
  priority: 1
  tags: [site]
`;

/** Variables with which a program, a shell or a container runtime loads other code or other settings. */
const VARIABLES = [
  ...['NODE_OPTIONS', 'NODE_PATH', 'LD_PRELOAD', 'LD_LIBRARY_PATH', 'BASH_ENV', 'PATH', 'OPENSSL_CONF', 'HOME', 'KRB5_CONFIG', 'FIXED'],
  ...['http_proxy', 'HTTPS_PROXY', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'HADOOP_CONF_DIR', 'TONY_CONF_DIR', 'A'],
  ...['YARN_CONTAINER_RUNTIME_TYPE', 'YARN_CONTAINER_RUNTIME_DOCKER_IMAGE', 'YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS'],
];
const TEXTS = ['x', '3g', '3s', '3h', './x', 'hdfs://nn/x', '/a:/b:rw', 'none', 'system', 'worker', 'run --all'];

/** Returns documents that each set one key of the schema to one value. Some of them are invalid. */
function documents(schema: JsonSchema, path: readonly string[]): unknown[] {
  const { anyOf, properties, additionalProperties, items, type } = schema as JsonSchema & {
    enum?: unknown[];
    const?: unknown;
    minimum?: number;
  };
  const { enum: choices, const: only, minimum = 0 } = schema as { enum?: unknown[]; const?: unknown; minimum?: number };
  const branches = (anyOf ?? []).flatMap((branch) => documents(branch, path));
  const below = Object.entries(properties ?? {}).flatMap(([key, each]) =>
    documents(each, [...path, key]).map((value) => ({ [key]: value })),
  );
  const names = path.at(-1) === 'env' ? VARIABLES : path.at(-1) === 'roles' ? ['worker', 'other'] : ['yarn.io/fpga', 'nec.com/ve', 'x'];
  const others =
    typeof additionalProperties === 'object'
      ? names.flatMap((key) => documents(additionalProperties, [...path, key]).map((value) => ({ [key]: value })))
      : [];
  const lists = typeof items === 'object' ? documents(items, path).map((value) => [value]) : [];
  const scalars =
    only !== undefined
      ? [only]
      : (choices ??
        (type === 'boolean' ? [true, false] : type === 'integer' ? [Math.max(0, minimum), minimum + 3] : type === 'string' ? TEXTS : []));
  // A mapping with a required key is valid only together with it.
  const required = path.length === 0 ? [] : ((schema as { required?: string[] }).required ?? []);
  const complete = [...below, ...others].map((each) => ({
    ...Object.fromEntries(required.map((key) => [key, key === 'image' ? 'evil' : key === 'role' ? 'worker' : './x'])),
    ...each,
  }));
  return [...branches, ...complete, ...lists, ...scalars];
}

const merged = (one: Readonly<Record<string, unknown>>, other: unknown): Record<string, unknown> => {
  const isMapping = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMapping(other)
    ? Object.fromEntries(
        [...new Set([...Object.keys(one), ...Object.keys(other)])].map((key) => {
          const [mine, theirs] = [one[key], other[key]];
          return [key, isMapping(mine) && isMapping(theirs) ? merged(mine, theirs) : key in other ? theirs : mine];
        }),
      )
    : { ...one };
};

const resource: LocalResource = { name: 'r', uri: 'hdfs://nn/r', type: 'archive', visibility: 'private', size: 1, timestamp: 1 };

/** Returns what YARN receives for the ApplicationMaster, without the parts that a site file does not set. */
function fixedParts(job: Job) {
  const staged: StagedParts = {
    source: null,
    bundles: resource,
    runtime: job.runtime === 'system' ? null : resource,
    tensorboard: null,
    pythonEnvironment: null,
    data: {},
    files: {},
  };
  const { queue, memoryMb, vcores, nodeLabel, priority, failureWindowMs, command, environment, acls } = applicationOf(
    { ...frozen({ roles: [] }), job },
    [],
    staged,
    { tokens: [], keepTokens: false, s3: null, configuration: HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://nn:8020' }) },
  );
  return { queue, memoryMb, vcores, nodeLabel, priority, failureWindowMs, command, environment, acls };
}

test.each(['default', 'system', 'hdfs://nn/apps/runtime.tar.gz'])(
  'no key of job.yaml changes what a site file with the final runtime %s sets',
  (runtime) => {
    const site = parseSite(SITE.replace('RUNTIME', runtime), 'site.yaml');
    const base = { name: 'j', command: 'run', framework: 'none', source: null, roles: { worker: {} } };
    const settle = (written: unknown): Job =>
      parseJob(stringify(written), { file: '/home/alice/job.yaml', folder: '/home/alice', site, onNote: () => {} });
    const expected = fixedParts(settle(base));
    expect(expected.environment).toEqual({ KRB5_CONFIG: '/etc/krb5.conf' });
    let accepted = 0;
    for (const document of documents(jobJsonSchema(), [])) {
      const written = merged(base, document);
      let job: Job;
      try {
        job = settle(written);
      } catch {
        continue;
      }
      accepted += 1;
      expect(withFinalValues(job, site.final).changed, JSON.stringify(document)).toEqual([]);
      expect(fixedParts(job), JSON.stringify(document)).toEqual(expected);
      for (const role of job.roles) {
        expect(role, JSON.stringify(document)).toMatchObject({ nodeLabel: 'cpu', docker: null, instances: 2, maxInstances: 2 });
        expect(role.resources).toMatchObject({ memoryMb: 1024, vcores: 1, gpus: 0 });
      }
    }
    expect(accepted).toBeGreaterThan(200);
  },
);

test('without a final runtime, a job chooses the variables of its ApplicationMaster, but not its container', () => {
  const parse = (env: string) =>
    parseJob(`name: j\ncommand: c\nframework: none\nsource: null\nroles: {worker: {}}\nmaster: {env: {${env}}}\n`, {
      file: 'x',
      folder: '/',
    });
  expect(fixedParts(parse('NODE_OPTIONS: --trace-gc')).environment).toEqual({ NODE_OPTIONS: '--trace-gc' });
  expect(() => parse('YARN_CONTAINER_RUNTIME_TYPE: docker')).toThrow('set `master.docker` instead');
});
