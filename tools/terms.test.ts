import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Command } from '../client/cli/command/command.ts';
import { COMMAND_LINE } from '../client/cli/command-line.ts';
import { jobJsonSchema } from '../conf/job-schema.ts';
import { siteJsonSchema } from '../conf/resolve/site.ts';
import { apiJsonSchema } from '../conf/status/api-schema.ts';
import { ERROR_CODES } from '../platform/errors.ts';

/*
 * One name for one thing, on every surface: the keys of job.yaml and of the site file, the JSON output, the variables and the file of a
 * task, commands with their arguments and options, and the names that both libraries export, with the members of their types.
 */

const ROOT = path.join(import.meta.dirname, '..');

interface Term {
  readonly thing: string;
  /** The names of the thing. */
  readonly names: readonly string[];
  /** Other words for the thing. `application id` stands for applicationId, application_id, application-id and APPLICATION_ID. */
  readonly not: readonly string[];
  /** The only surface to which the term belongs. */
  readonly only?: string;
  /** Names with such a word, and why they are right. */
  readonly except?: Readonly<Record<string, string>>;
}

const TERMS: readonly Term[] = [
  {
    thing: 'ID of a job',
    names: ['id', 'jobId', 'job_id'],
    not: ['application id', 'app id'],
    except: { applicationId: "YARN's own report" },
  },
  { thing: 'number of tasks that a role requests', names: ['instances'], not: ['replicas', 'slots', 'workers', 'role size', 'num tasks'] },
  {
    thing: 'bounds of a number',
    names: ['min', 'max'],
    not: ['least', 'most', 'minimum', 'maximum'],
    except: { maximum: "YARN's largest container" },
  },
  { thing: 'number of results to show', names: ['limit'], not: ['top n', 'page size', 'max results'] },
  { thing: 'limit of a duration', names: ['timeout'], not: ['time limit', 'deadline', 'within', 'max duration'] },
  {
    thing: 'time between two actions',
    names: ['interval', 'everySteps'],
    not: ['period', 'frequency', 'verify every'],
    except: { gracePeriod: 'the time that a program has to end, as in Kubernetes', gracePeriodMs: 'the same' },
  },
  { thing: 'age at which files are removed', names: ['maxAge', 'older-than'], not: ['ttl', 'retention', 'expiry'] },
  { thing: 'number of things to keep', names: ['keep'], not: ['max to keep', 'save total limit'] },
  { thing: 'restarts after failures', names: ['restart', 'maxRestarts'], not: ['retry', 'retries', 'retry on'] },
  { thing: 'environment variables', names: ['env'], not: ['environment', 'env vars', 'environment variables'] },
  { thing: 'next step after an error or a finding', names: ['hint'], not: ['remedy', 'advice', 'suggestion'] },
  {
    thing: 'sentence for people',
    names: ['message'],
    not: ['diagnostics', 'detail', 'about', 'reason text'],
    except: { about: 'the topic of a notice, which a later notice on the same topic replaces', detail: 'fsspec' },
  },
  { thing: 'value that applies by default', names: ['default'], not: ['fallback', 'standard'] },
  { thing: 'memory', names: ['memory', 'memoryBytes'], not: ['mem', 'ram', 'memory mb', 'memory mi b', 'allocated mb'] },
  { thing: 'newest checkpoint', names: ['latest', 'latest_checkpoint'], not: ['newest', 'last checkpoint', 'most recent'] },
  { thing: 'whether a smaller or a larger metric is better', names: ['mode'], not: ['goal', 'direction', 'objective'] },
  { thing: 'removal of old files', names: ['prune'], not: ['delete', 'purge', 'clean', 'erase', 'gc'] },
  { thing: 'task whose result is the result of the job', names: ['chief'], not: ['leader', 'driver', 'coordinator', 'head'] },
  { thing: 'address', names: ['uri', 'url'], not: ['href', 'link', 'location'] },
  {
    thing: 'weights of a checkpoint that a program takes over',
    names: ['load', 'loadCheckpoint'],
    not: ['restore', 'recover'],
    except: { restoreBest: "Keras's word for the return to the best weights of the same training" },
  },
  {
    thing: 'code of an error for a missing thing',
    names: ['JOB_NOT_FOUND'],
    only: 'error codes',
    not: ['missing', 'unknown', 'no such', 'not there'],
  },
  {
    thing: 'code of an error for two things that do not agree',
    names: ['CHECKPOINT_MISMATCH'],
    only: 'error codes',
    not: ['misfit', 'differ', 'unfit', 'conflict'],
  },
  { thing: 'kind of a JSON object or of a role', names: ['kind'], not: ['object type', 'role type'] },
  { thing: 'metrics of a program', names: ['report', 'metrics'], not: ['log metrics', 'track'] },
  { thing: 'what a job may use', names: ['quotas'], not: ['entitlement', 'cap'] },
  { thing: 'answer that a question would get', names: ['yes'], not: ['force', 'assume yes', 'no confirm'] },
];

interface Name {
  readonly where: string;
  readonly name: string;
}

function words(name: string): string {
  const split = name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .replace(/[^A-Za-z\d]+/g, ' ');
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

/** Returns the names that an index file exports, and the members of its interfaces and classes. */
async function exported(index: string): Promise<Name[]> {
  const source = await readFile(path.join(ROOT, index), 'utf8');
  const names: Name[] = [];
  for (const [, list = '', file = ''] of source.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g)) {
    const module = await readFile(path.join(ROOT, path.dirname(index), file), 'utf8');
    for (const name of list.split(',').map((each) => each.replace(/\btype\b|.* as /g, '').trim())) {
      const [, body = ''] =
        new RegExp(`export (?:interface|(?:abstract )?class) ${name}\\b[^{]*\\{\\n([\\s\\S]*?)\\n\\}`).exec(module) ?? [];
      const members = [...body.matchAll(/^ {2}(?:readonly |async )?(\w+)\??[:(<]/gm)].map(([, member]) => member as string);
      names.push({ where: index, name }, ...members.map((member) => ({ where: `${index} ${name}`, name: member })));
    }
  }
  return names.filter(({ name }) => name !== '');
}

async function pythonNames(file: string): Promise<Name[]> {
  const source = await readFile(path.join(ROOT, 'python', 'tony', file), 'utf8');
  const functions = [...source.matchAll(/^(?: {4})?(?:def|class) ([A-Za-z]\w*)(?:\(([\s\S]*?)\)(?: ->[^:\n]*)?:)?/gm)];
  const parameters = functions.flatMap(([, , list = '']) => [...list.matchAll(/(?:^|[,(\s])([a-z]\w*)\s*:/g)]);
  const fields = [...source.matchAll(/^ {4}([a-z]\w*): /gm)];
  return [...functions, ...parameters, ...fields].map(([, name]) => ({ where: `python ${file}`, name: name as string }));
}

/** Every name that users type, import, parse or read. */
async function allNames(): Promise<Name[]> {
  return [
    ...schemaKeys('job.yaml', jobJsonSchema()),
    ...schemaKeys('tony-site.yaml', siteJsonSchema()),
    ...schemaKeys('JSON output', apiJsonSchema()),
    ...schemaKeys('task', JSON.parse(await readFile(path.join(ROOT, 'docs', 'environment.schema.json'), 'utf8'))),
    ...commandNames(COMMAND_LINE),
    ...(await exported('client/index.ts')),
    ...(await exported('training/index.ts')),
    ...(
      await Promise.all(
        (
          await readdir(path.join(ROOT, 'python', 'tony'), { recursive: true })
        )
          // The names of the other package are those of TensorFlowOnSpark, whose programs it runs.
          .filter((file) => file.endsWith('.py') && file !== '_arguments.py' && !file.startsWith('spark/tensorflowonspark/'))
          .map(pythonNames),
      )
    ).flat(),
    ...Object.keys(ERROR_CODES).map((name) => ({ where: 'error codes', name })),
  ];
}

const has = (name: string, word: string): boolean => words(name).includes(` ${word} `);

test('each thing has one name in schemas, commands, JSON, libraries and error codes', async () => {
  const all = await allNames();
  expect(all.length).toBeGreaterThan(1500);
  const wrong = TERMS.flatMap(({ names, not, only, except = {} }) =>
    all
      .filter(({ where }) => only === undefined || where === only)
      .filter(({ name }) => !Object.hasOwn(except, name) && not.some((word) => has(name, word)))
      .map(({ where, name }) => `${where}: ${name}; say ${names.join(' or ')}`),
  );
  expect([...new Set(wrong)]).toEqual([]);
  // The table names nothing that does not exist.
  const known = new Set(all.map(({ name }) => name));
  expect(TERMS.flatMap(({ names, except = {} }) => [...names, ...Object.keys(except)]).filter((name) => !known.has(name))).toEqual([]);
});
