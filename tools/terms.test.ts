import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Command } from '../client/cli/command/command.ts';
import { COMMAND_LINE } from '../client/cli/command-line.ts';
import { jobJsonSchema } from '../conf/job-schema.ts';
import { siteJsonSchema } from '../conf/resolve/site.ts';
import { apiJsonSchema } from '../conf/status/api-schema.ts';
import * as client from '../client/index.ts';
import * as training from '../training/index.ts';

/*
 * One name for one thing, on every surface: the keys of job.yaml and of the site file, the JSON output, the variables and the file of a
 * task, commands with their arguments and options, and the names that both libraries export, with the members of their types.
 */

const ROOT = path.join(import.meta.dirname, '..');

interface Term {
  readonly thing: string;
  readonly name: string;
  /** Other words for the thing. `application id` matches applicationId, application_id, application-id and APPLICATION_ID. */
  readonly not: readonly string[];
  /** Names that contain such a word for another reason, with the reason. */
  readonly except?: Readonly<Record<string, readonly string[]>>;
}

const TERMS: readonly Term[] = [
  { thing: 'ID of a job', name: 'id, jobId', not: ['application id', 'app id'] },
  { thing: 'number of a role\'s tasks that a user requests', name: 'instances', not: ['replicas', 'slots', 'num workers', 'role size', 'count'] },
  { thing: 'bounds of a number', name: 'min, max', not: ['least', 'most', 'minimum', 'maximum', 'at most'] },
  { thing: 'limit of a number of results', name: 'limit', not: ['top n', 'page size'] },
  { thing: 'limit of a duration', name: 'timeout', not: ['time limit', 'deadline', 'within'] },
  { thing: 'interval', name: 'interval, everySteps', not: ['period', 'frequency', 'verify every'] },
  { thing: 'age after which files may be removed', name: 'maxAge, olderThan', not: ['ttl', 'retention', 'expiry'] },
  { thing: 'restarts', name: 'restart, maxRestarts', not: ['retry', 'retries', 'retry on'] },
  { thing: 'environment variables', name: 'env', not: ['environment', 'env vars', 'variables'] },
  { thing: 'next step after an error or a finding', name: 'hint', not: ['remedy', 'advice', 'suggestion', 'fix'] },
  { thing: 'sentence for people', name: 'message', not: ['diagnostics', 'text', 'detail', 'about', 'waiting'] },
  { thing: 'default value', name: 'default', not: ['fallback', 'standard'] },
  { thing: 'ID of a container', name: 'containerId', not: ['container'] },
  { thing: 'amount of memory', name: 'memory, memoryBytes', not: ['mem', 'memory mb', 'memory mi b', 'ram'] },
  { thing: 'newest checkpoint', name: 'latestCheckpoint', not: ['newest', 'last checkpoint', 'recent'] },
  { thing: 'direction of a metric', name: 'mode', not: ['goal', 'direction', 'objective'] },
  { thing: 'removal of data', name: 'prune, remove', not: ['delete', 'purge', 'clean', 'erase'] },
  { thing: 'chief', name: 'chief', not: ['leader', 'driver', 'coordinator'] },
  { thing: 'address of a resource', name: 'uri, url', not: ['href', 'link', 'location'] },
  { thing: 'restoring', name: 'load', not: ['restore', 'recover'] },
  { thing: 'missing thing', name: 'NOT_FOUND', not: ['missing', 'unknown', 'no such'] },
  { thing: 'two things that do not agree', name: 'MISMATCH', not: ['misfit', 'differ', 'unfit', 'conflict'] },
  { thing: 'kind of a JSON object', name: 'kind', not: ['object type'] },
];

interface Name {
  readonly where: string;
  readonly name: string;
}

function words(name: string): string {
  const split = name.replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2').replace(/[^A-Za-z\d]+/g, ' ');
  return ` ${split.toLowerCase().trim()} `;
}

function schemaKeys(where: string, schema: unknown): Name[] {
  if (typeof schema !== 'object' || schema === null) {
    return [];
  }
  return Object.entries(schema).flatMap(([key, value]) => [
    ...(key === 'properties' ? Object.keys(value as object).map((name) => ({ where, name })) : []),
    ...schemaKeys(where, value),
  ]);
}

function commandNames({ name, commands, options, positionals }: Command): Name[] {
  const own = [name, ...options.map((option) => option.name), ...positionals.map((positional) => positional.name)];
  return [...own.map((each) => ({ where: `command ${name}`, name: each })), ...commands.flatMap(commandNames)];
}

async function exported(where: string, index: string, values: object): Promise<Name[]> {
  const source = await readFile(path.join(ROOT, index), 'utf8');
  const types = [...source.matchAll(/\b([A-Z]\w+)\b(?=[^'"]*\} from|,|;)/g)].map(([, name]) => name as string);
  return [...new Set([...types, ...Object.keys(values)])].map((name) => ({ where, name }));
}

async function pythonNames(file: string): Promise<Name[]> {
  const source = await readFile(path.join(ROOT, 'python', 'tony', file), 'utf8');
  const functions = [...source.matchAll(/^(?: {4})?(?:def|class) ([A-Za-z]\w*)(?:\(([\s\S]*?)\)(?: ->[^:\n]*)?:)?/gm)];
  return functions.flatMap(([, name = '', parameters = '']) =>
    [name, ...[...parameters.matchAll(/(?:^|[,(\s])([a-z]\w*)\s*:/g)].map(([, parameter]) => parameter as string)].map((each) => ({ where: `python ${file}`, name: each })),
  );
}

test('list', async () => {
  const all = [
    ...schemaKeys('job.yaml', jobJsonSchema()),
    ...schemaKeys('site file', siteJsonSchema()),
    ...schemaKeys('JSON output', apiJsonSchema()),
    ...schemaKeys('task', JSON.parse(await readFile(path.join(ROOT, 'docs', 'environment.schema.json'), 'utf8'))),
    ...commandNames(COMMAND_LINE),
    ...(await exported('tony-ts', 'client/index.ts', client)),
    ...(await exported('tony-ts/training', 'training/index.ts', training)),
    ...(await pythonNames('__init__.py')),
    ...(await pythonNames('client.py')),
    ...Object.keys((await import('../platform/errors.ts')).ERROR_CODES).map((name) => ({ where: 'errors', name })),
  ];
  console.log(all.length);
  for (const { name: good, not } of TERMS) {
    const hits = all.filter(({ name }) => not.some((word) => words(name).includes(` ${word} `)));
    console.log(good, [...new Set(hits.map(({ where, name }) => `${where}: ${name}`))]);
  }
  expect(all.length).toBeGreaterThan(500);
});
