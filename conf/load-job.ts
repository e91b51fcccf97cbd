import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, resolve } from 'node:path';
import { type Document, isMap, isPair, isScalar, LineCounter, type Node, parse, parseDocument, type Range } from 'yaml';
import type { z } from 'zod';
import { messageOf, TonyError } from './errors.ts';
import type { Job, Role } from './job.ts';
import { type JobFile, type JsonSchema, jobJsonSchema, jobSchema } from './job-schema.ts';
import { suggest } from './suggest.ts';

export interface LoadOptions {
  /** Overrides as `--set` takes them: `roles.worker.instances=4`; the value is YAML; a dot within a key is written `\.`. */
  readonly set?: readonly string[];
}

/** A mistake in job.yaml, with where it stands. */
interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** The mistake is the key itself, not its value. */
  readonly atKey?: boolean;
}

/** Names of roles that take no part in all-reduce unless they say so. */
const UNRANKED_ROLES: ReadonlySet<string> = new Set(['evaluator', 'ps', 'tensorboard']);

const RESOURCE_KEYS: readonly string[] = ['memory', 'vcores', 'gpus'];

/**
 * Reads a job file.
 * @throws TonyError JOB_UNREADABLE when there is no such file, JOB_INVALID with every mistake: line, column, what to write instead.
 */
export async function loadJob(path: string, options: LoadOptions = {}): Promise<Job> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new TonyError('JOB_UNREADABLE', `Cannot read the job file ${path}: ${messageOf(error)}.`, { cause: error });
  }
  return parseJob(text, { file: path, folder: dirname(resolve(path)), set: options.set ?? [] });
}

/** The pure part of {@link loadJob}: `file` is the name that problems carry, `folder` what relative paths start from. */
export function parseJob(text: string, options: { file: string; folder: string; set?: readonly string[] }): Job {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${options.file}:${line}:${col}`;
  };
  const fail = (problems: readonly string[]): never => {
    const heading = problems.length === 1 ? 'The job file has a mistake:' : `The job file has ${problems.length} mistakes:`;
    throw new TonyError('JOB_INVALID', [heading, ...problems.map((problem) => `  ${problem}`)].join('\n'));
  };

  if (document.errors.length > 0) fail(document.errors.map((error) => `${at(error.pos[0])}  ${error.message}`));
  if (!isMap(document.contents)) {
    fail([`${at(0)}  expected a mapping with the keys name and roles, found ${describe(document.toJS())}`]);
  }
  const overridden = new Map<string, string>();
  for (const assignment of options.set ?? []) applyOverride(document, assignment, overridden);

  const parsed = jobSchema.safeParse(document.toJS());
  const problems = parsed.success ? meaningProblems(parsed.data) : parsed.error.issues.flatMap((issue) => describeIssue(issue, document));
  if (problems.length > 0) {
    const placed = problems.map((problem) => {
      const override = overriddenBy(problem.path, overridden);
      const name = problem.path.length === 0 ? '' : `${problem.path.join('.')}: `;
      if (override !== undefined) return { offset: Number.MAX_SAFE_INTEGER, text: `--set ${override}  ${name}${problem.message}` };
      const offset = offsetOf(document, problem);
      return { offset, text: `${at(offset)}  ${name}${problem.message}` };
    });
    fail(placed.sort((a, b) => a.offset - b.offset).map((problem) => problem.text));
  }
  return toJob(parsed.data as JobFile, options.folder);
}

/** `roles.worker.instances=4` put into the document; what was there is replaced, what was missing is made. */
function applyOverride(document: Document, assignment: string, overridden: Map<string, string>): void {
  const equals = assignment.indexOf('=');
  const keys = splitKeys(assignment.slice(0, Math.max(0, equals)));
  if (equals < 1 || keys.some((key) => key === '')) {
    throw new TonyError('USAGE', `--set ${assignment} is no assignment.`, { hint: 'Write it like --set roles.worker.instances=4.' });
  }
  let value: unknown;
  try {
    value = parse(assignment.slice(equals + 1));
  } catch (error) {
    throw new TonyError('USAGE', `The value of --set ${assignment} is no YAML: ${messageOf(error)}.`, {
      hint: 'Quote it, like --set \'command="node train.ts --rate 0.1"\'.',
      cause: error,
    });
  }
  for (let depth = 1; depth < keys.length; depth++) {
    const parent = document.getIn(keys.slice(0, depth), true);
    if (parent !== undefined && !isMap(parent)) document.deleteIn(keys.slice(0, depth));
  }
  document.setIn(keys, value === undefined ? undefined : document.createNode(value));
  overridden.set(keys.join('\u0000'), assignment);
}

function splitKeys(path: string): string[] {
  return path
    .split(/(?<!\\)\./)
    .map((key) => key.replaceAll('\\.', '.'))
    .map((key) => key.trim());
}

function overriddenBy(path: readonly (string | number)[], overridden: ReadonlyMap<string, string>): string | undefined {
  for (let length = path.length; length > 0; length--) {
    const found = overridden.get(path.slice(0, length).join('\u0000'));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Where the value at the path (or its key) starts; the nearest parent that exists when it is missing. */
function offsetOf(document: Document, problem: Problem): number {
  const { path } = problem;
  if (problem.atKey === true && path.length > 0) {
    const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
    if (isMap(parent)) {
      const pair = parent.items.find((item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(path.at(-1)));
      const range = isScalar(pair?.key) ? pair.key.range : undefined;
      if (range) return range[0];
    }
  }
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as Node | undefined;
    const range = node?.range as Range | null | undefined;
    if (range) return length === path.length ? range[0] : offsetOf(document, { ...problem, path: path.slice(0, length), atKey: true });
  }
  return 0;
}

function describeIssue(issue: z.core.$ZodIssue, document: Document): Problem[] {
  const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key));
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({ path: [...path, key], atKey: true, message: unknownKey(path, key) }));
    case 'invalid_key':
      return [{ path, atKey: true, message: `\`${String(path.at(-1))}\` ${issue.issues[0]?.message ?? 'is no valid name'}` }];
    case 'invalid_value': {
      const value = document.getIn(path);
      const options = issue.values.map((option) => String(option));
      if (value === undefined) return [{ path, message: `is missing: one of ${options.join(', ')}` }];
      return [{ path, message: `\`${String(value)}\` is none of ${options.join(', ')}${didYouMean(String(value), options)}` }];
    }
    case 'invalid_type': {
      if (!document.hasIn(path)) return [{ path, message: `is missing${path.join() === 'roles' ? ': write at least one role' : ''}` }];
      const expectation = issue.message.startsWith('Invalid') ? `expected ${typeName(issue.expected)}` : issue.message;
      return [{ path, message: `${expectation}, found ${describe(document.getIn(path))}` }];
    }
    case 'invalid_union': {
      // The alternative whose type fits is the one that was meant; its own mistakes say more than "none of these".
      const meant = issue.errors.find((branch) => branch.every((inner) => inner.path.length > 0 || inner.code !== 'invalid_type'));
      if (meant?.some((inner) => inner.code !== 'invalid_format')) {
        return meant.flatMap((inner) => describeIssue({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, document));
      }
      return [{ path, message: `${issue.message}, found ${describe(document.getIn(path))}` }];
    }
    case 'too_small':
      return [{ path, message: issue.origin === 'string' ? issue.message : `must be at least ${issue.minimum}` }];
    case 'too_big':
      return [{ path, message: issue.origin === 'number' || issue.origin === 'int' ? `must be at most ${issue.maximum}` : issue.message }];
    case 'invalid_format':
    case 'not_multiple_of':
    case 'invalid_element':
    case 'custom':
      return [{ path, message: issue.message }];
  }
}

function typeName(expected: string): string {
  if (expected === 'object' || expected === 'record') return 'a mapping';
  if (expected === 'array') return 'a list';
  if (expected === 'int') return 'a whole number';
  if (expected === 'string') return 'a text';
  return `a ${expected}`;
}

function describe(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (isMap(value)) return 'a mapping';
  if (Array.isArray(value) || (typeof value === 'object' && 'items' in value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  const text = String(value);
  return `\`${text.length > 60 ? `${text.slice(0, 57)}...` : text}\``;
}

function unknownKey(path: readonly (string | number)[], key: string): string {
  const known = Object.keys(schemaAt(path)?.properties ?? {});
  return `is no key here${didYouMean(key, known)}${known.length > 0 ? ` (known: ${known.join(', ')})` : ''}`;
}

function didYouMean(word: string, candidates: readonly string[]): string {
  const meant = suggest(word, candidates);
  return meant === undefined ? '' : `; did you mean \`${meant}\`?`;
}

function schemaAt(path: readonly (string | number)[]): JsonSchema | undefined {
  let schema: JsonSchema | undefined = jobJsonSchema();
  for (const key of path) {
    const branches: readonly JsonSchema[] = [schema, ...(schema.anyOf ?? [])];
    const next: JsonSchema | boolean | undefined = branches
      .map((branch) => branch.properties?.[key] ?? branch.additionalProperties ?? branch.items)
      .find((candidate) => typeof candidate === 'object');
    if (typeof next !== 'object') return undefined;
    schema = next;
  }
  return [schema, ...(schema.anyOf ?? [])].find((branch) => branch.properties !== undefined) ?? schema;
}

/** What is well-formed but means nothing. */
function meaningProblems(file: JobFile): Problem[] {
  const problems: Problem[] = [];
  const names = Object.keys(file.roles);
  if (names.length === 0) problems.push({ path: ['roles'], message: 'write at least one role' });
  for (const name of names) {
    const role = file.roles[name];
    if (role === undefined) continue;
    if (role.command === undefined && file.command === undefined) {
      problems.push({
        path: ['roles', name],
        atKey: true,
        message: 'has no command, and neither has the job: write `command: node train.ts`',
      });
    }
    for (const resource of Object.keys(role.resources)) {
      if (RESOURCE_KEYS.includes(resource)) continue;
      const meant = resource === 'yarn.io/gpu' ? 'gpus' : suggest(resource, RESOURCE_KEYS);
      if (meant === undefined) continue;
      problems.push({
        path: ['roles', name, 'resources', resource],
        atKey: true,
        message: `is no resource type; did you mean \`${meant}\`?`,
      });
    }
    if (role.sidecar && role.untracked) {
      problems.push({ path: ['roles', name, 'untracked'], message: 'a role is either sidecar or untracked' });
    }
    if (role.chief === true && (role.sidecar || role.untracked)) {
      problems.push({
        path: ['roles', name, 'chief'],
        message: 'the chief must be tracked: remove sidecar and untracked, or choose another role',
      });
    }
    if (role.ranked === true && (role.sidecar || role.untracked)) {
      problems.push({
        path: ['roles', name, 'ranked'],
        message: 'only tracked roles take part in all-reduce: remove sidecar and untracked',
      });
    }
  }
  const chiefs = names.filter((name) => file.roles[name]?.chief === true);
  for (const name of chiefs.slice(1)) {
    problems.push({ path: ['roles', name, 'chief'], message: `only one role can be the chief, and \`${chiefs[0]}\` is already` });
  }
  if (names.length > 0 && names.every((name) => file.roles[name]?.sidecar || file.roles[name]?.untracked)) {
    problems.push({
      path: ['roles'],
      atKey: true,
      message: 'at least one role must be tracked: nothing would decide when the job is over',
    });
  }
  return problems;
}

function toJob(file: JobFile, folder: string): Job {
  const names = Object.keys(file.roles);
  const tracked = names.filter((name) => !file.roles[name]?.sidecar && !file.roles[name]?.untracked);
  const chief =
    names.find((name) => file.roles[name]?.chief === true) ??
    ['chief', 'worker'].find((name) => tracked.includes(name) && file.roles[name]?.chief !== false) ??
    tracked[0];
  const roles = names.map((name): Role => {
    const role = file.roles[name] as JobFile['roles'][string];
    const { memory, vcores, gpus, ...other } = role.resources;
    const tracking = role.sidecar ? 'sidecar' : role.untracked ? 'untracked' : 'tracked';
    return {
      name,
      instances: role.instances,
      resources: { memoryMb: memory, vcores, gpus, other },
      command: role.command ?? file.command ?? '',
      env: role.env,
      nodeLabel: role.nodeLabel ?? null,
      restart: role.restart,
      tracking,
      chief: name === chief,
      ranked: role.ranked ?? (file.framework === 'tfjs' && tracking === 'tracked' && !UNRANKED_ROLES.has(name)),
    };
  });
  return {
    name: file.name,
    queue: file.queue,
    source: file.source === undefined ? null : { path: resolvePath(file.source.path, folder), exclude: file.source.exclude },
    framework: file.framework,
    runtime: file.runtime,
    data: Object.fromEntries(
      Object.entries(file.data).map(([name, place]) => [name, hasScheme(place) ? place : resolvePath(place, folder)]),
    ),
    env: file.env,
    roles,
    success: file.success,
    gang: { timeoutMs: file.gang.timeout },
    heartbeat: { intervalMs: file.heartbeat.interval, missed: file.heartbeat.missed },
    checkpoint: { dir: file.checkpoint.dir ?? null, everySteps: file.checkpoint.every, keep: file.checkpoint.keep },
    tensorboard: { logdir: file.tensorboard.logdir ?? null, serve: file.tensorboard.serve, memoryMb: file.tensorboard.memory },
    timeoutMs: file.timeout ?? null,
    acls: file.acls,
    master: { memoryMb: file.master.memory, vcores: file.master.vcores, nodeLabel: file.master.nodeLabel ?? null },
    tags: file.tags,
  };
}

function hasScheme(place: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(place);
}

function resolvePath(path: string, folder: string): string {
  if (path === '~' || path.startsWith('~/')) return resolve(homedir(), path.slice(2));
  return isAbsolute(path) ? resolve(path) : resolve(folder, path);
}
