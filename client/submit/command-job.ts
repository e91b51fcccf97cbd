import { resolve } from 'node:path';
import { stringify } from 'yaml';
import type { Job } from '../../conf/job.ts';
import { isTooBroad } from '../../conf/resolve/default-source.ts';
import { type ParseOptions, parseJob } from '../../conf/resolve/load-job.ts';
import { TonyError } from '../../platform/errors.ts';
import { splitVariable } from './split-variable.ts';

/** Job with one role, `worker`, described by command-line arguments instead of a job.yaml. Values have the same syntax as in job.yaml. */
export interface CommandJob {
  /** A single word is a shell command. Several words are a program and its arguments, and are quoted for the shell. */
  readonly words: readonly string[];
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  /** Number of workers. The default is 1. */
  readonly instances?: number | undefined;
  readonly memory?: string | undefined;
  readonly vcores?: number | undefined;
  readonly gpus?: number | undefined;
  /** Environment variables, for example `EPOCHS=3`. */
  readonly env?: readonly string[] | undefined;
  readonly framework?: string | undefined;
  /** Folder with the code, relative to the current folder, or `none` if there is no code to upload. The default is the current folder. */
  readonly source?: string | undefined;
}

const LONGEST_NAME = 40;

/**
 * Creates a job whose tasks are all in the `worker` role.
 * @throws TonyError USAGE if an environment variable has no name, or if the source folder is too broad to upload; JOB_INVALID for other
 * mistakes
 */
export function commandJob(given: CommandJob, folder: string, options: Omit<ParseOptions, 'file' | 'folder' | 'isFile'> = {}): Job {
  return parseJob(commandJobYaml(given, folder), { ...options, file: 'command line', folder });
}

function commandJobYaml(
  { words, name, queue, instances = 1, memory, vcores, gpus, env = [], framework, source }: CommandJob,
  folder: string,
): string {
  const place = source ?? '.';
  if (place !== 'none' && isTooBroad(resolve(folder, place))) {
    throw new TonyError('USAGE', `tony-ts would upload the whole folder ${resolve(folder, place)}.`, {
      hint: 'Change to the folder with your code, or write --source FOLDER or --source none.',
    });
  }
  const command = words.length === 1 ? words[0] : words.map(quoted).join(' ');
  const resources = { memory, vcores, gpus };
  // `JSON.stringify` omits undefined values.
  const job: unknown = JSON.parse(
    JSON.stringify({
      name: name ?? nameOf(words),
      queue,
      source: place === 'none' ? null : place,
      framework,
      command,
      env: Object.fromEntries(env.map(splitVariable)),
      roles: { worker: { instances, resources } },
    }),
  );
  return stringify(job);
}

/** Derives a job name from the words in the command, for example `node train.ts --rate 0.1`. Omits the folder of the program. */
function nameOf(words: readonly string[]): string {
  const plain = words
    .join(' ')
    .replace(/^\/\S*\/(?=\S)/, '')
    .replace(/[^\w .:@+-]+/g, '-')
    .replace(/^\W+/, '');
  return plain.slice(0, LONGEST_NAME).trim() || 'command';
}

/** Quotes a word for bash, unless the word contains only characters without a special meaning. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
