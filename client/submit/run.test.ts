import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { run, start } from './run.ts';

/** Tests errors before a job starts. integration-tests/run-function.test.ts tests jobs. */

async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

test('run rejects a function whose text does not compile, with a hint', async () => {
  await expect(run({ instances: 1, local: true }, Math.max as never)).rejects.toMatchObject({
    code: 'FUNCTION_INVALID',
    message: expect.stringContaining('as source text (function max() { [native code] })'),
    hint: expect.stringContaining('Move the function to its own module'),
  });
});

test('run rejects arguments that JSON cannot represent or that are too large', async () => {
  const fn = async (_cluster: unknown, ...values: unknown[]) => values.length;
  for (const [values, message] of [
    [[new Map()], 'args[0] is a Map'],
    [[1, { a: [Number.NaN] }], 'args[1].a[0] is NaN'],
    [['x'.repeat(16 * 1024 * 1024)], 'args[0] is 16777218 bytes long'],
  ] as const) {
    await expect(run({ instances: 1, local: true }, fn, ...values)).rejects.toMatchObject({
      code: 'FUNCTION_INVALID',
      message: expect.stringContaining(message),
    });
  }
});

test('run rejects a module that does not exist or is outside its source folder', async () => {
  const root = await folder();
  const other = await folder();
  await writeFile(path.join(root, 'train.ts'), 'export const train = () => 1;\n');
  const options = { instances: 1, local: true } as const;
  await expect(run(options, { module: path.join(root, 'none.ts'), export: 'train' })).rejects.toThrow(/does not exist/);
  await expect(run({ ...options, source: other }, { module: path.join(root, 'train.ts'), export: 'train' })).rejects.toThrow(
    /is not in the source folder/,
  );
});

test('start checks its options with the rules of job.yaml', async () => {
  const fn = async () => 1;
  await expect(start({ instances: 1, memory: '1 apple', local: true }, fn)).rejects.toMatchObject({ code: 'JOB_INVALID' });
  await expect(start({ instances: 1, local: true, conf: { queu: 'x' } as object }, fn)).rejects.toThrow(/did you mean `queue`/);
});
