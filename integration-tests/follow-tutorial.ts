import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { type Block, blocksOf, commandsOf, readDocuments } from '../tools/documents.ts';
import { until } from './harness.ts';
import type { ReadersShell } from './readers-shell.ts';

/*
 * Follows a tutorial from its first block to its last. A comment before a block says how:
 *   <!-- file: NAME -->              the reader writes the block to this file
 *   <!-- until: PATTERN -->          the reader repeats the commands until the output matches
 *   <!-- ends with its task -->      the command may fail, because it ends the program of its own task
 *   <!-- exits with N: TEXT -->      the command fails with this exit code, and prints this text
 *   <!-- on a cluster -->            a reader without a cluster skips the commands
 *   <!-- on your machine -->         a reader with a cluster skips the commands
 * A reader without a cluster adds --local to each `tony-ts submit`.
 * JOB_ID is the job that the tutorial has submitted last.
 */

export interface TutorialOptions {
  readonly shell: ReadersShell;
  /** Empty folder, in which the reader works. */
  readonly folder: string;
  /** Adapts a command or a file to the test's cluster. */
  readonly adapt: (text: string) => string;
  /** Commands that cannot run in the test. */
  readonly skipped: readonly RegExp[];
  /** Whether the reader has no cluster. */
  readonly isLocal?: boolean;
}

/**
 * @param name for example `docs/tutorials/pytorch.md`
 * @returns the number of commands that have run
 */
export async function followTutorial(name: string, { shell, folder, adapt, skipped, isLocal = false }: TutorialOptions): Promise<number> {
  const document = (await readDocuments()).find((each) => each.name === name);
  if (document === undefined) {
    throw new Error(`there is no document ${name}`);
  }
  await mkdir(folder, { recursive: true });
  let job = '';
  let commands = 0;
  for (const block of blocksOf(document)) {
    const file = /^file: (\S+)$/.exec(block.note)?.[1];
    if (file !== undefined) {
      await writeFile(path.join(folder, file), `${adapt(block.text)}\n`);
    } else if (block.language === 'sh' && block.note !== (isLocal ? 'on a cluster' : 'on your machine')) {
      for (const { text, place } of commandsOf(block)) {
        if (!skipped.some((pattern) => pattern.test(text))) {
          const own = isLocal ? text.replace(/^tony-ts submit (?!.*--local)/, 'tony-ts submit --local ') : text;
          const command = adapt(own).replaceAll('JOB_ID', job);
          const output = await follow(shell, folder, { command, place, note: block.note });
          commands += 1;
          job = text.startsWith('tony-ts submit') ? ([...output.matchAll(/\b(application|local)_\d+_\d+/g)].at(-1)?.[0] ?? job) : job;
        }
      }
    }
  }
  return commands;
}

type Step = { readonly command: string; readonly place: string } & Pick<Block, 'note'>;

async function follow(shell: ReadersShell, folder: string, { command, place, note }: Step): Promise<string> {
  const run = () => shell.run(command, folder, { shell: `${folder}.shell` });
  const pattern = /^until: (.+)$/.exec(note)?.[1];
  if (pattern !== undefined) {
    let last = '';
    return await until(
      async () => {
        last = (await run()).output;
        return new RegExp(pattern).test(last) && last;
      },
      { everyMs: 500, describe: () => `${place}: ${command} has printed ${pattern}: ${last}` },
    );
  }
  const { exitCode, output } = await run();
  const [, failure, printed = ''] = /^exits with (\d+): (.+)$/.exec(note) ?? [];
  const expected = failure !== undefined ? [Number(failure)] : note === 'ends with its task' ? [0, 1, 137, 255] : [0];
  expect({ place, command, exitCode, output }).toEqual({
    place,
    command,
    exitCode: expect.toBeOneOf(expected),
    output: expect.stringContaining(printed),
  });
  return output;
}
