/** Runs examples/gan as a local job with a custom training loop. Compares an uninterrupted run with a run in which a worker is killed. */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, runCommand, startCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';

interface Outcome {
  /** Returns each worker's last line, which contains the training result. */
  readonly lines: readonly string[];
  readonly events: string;
}

/** Makes worker 1 of generation 1 wait at step 175. When the test kills the worker, the newest checkpoint is at step 150. */
async function holdAtStep175(program: string): Promise<void> {
  const first = 'for await (const { step } of loop) {\n';
  const text = await readFile(program, 'utf8');
  expect(text).toContain(first);
  const held = "step === 175 && process.env.TONY_INDEX === '1' && process.env.TONY_GENERATION === '1'";
  await writeFile(program, text.replace(first, `${first}  if (${held}) await new Promise(() => setInterval(() => undefined, 60_000));\n`));
}

async function run(killed: boolean): Promise<Outcome> {
  const folder = await temporaryFolder();
  const example = path.join(folder, 'gan');
  await cp(path.join(ROOT, 'examples', 'gan'), example, { recursive: true });
  const pids = path.join(folder, 'pids');
  await mkdir(pids);
  const file = path.join(example, 'job.yaml');
  const job = await readFile(file, 'utf8');
  const command = `command: echo $$ > ${pids}/$TONY_INDEX-$TONY_GENERATION; exec node train.ts`;
  await writeFile(
    file,
    job.replace('command: node train.ts', () => command),
  );
  if (killed) {
    await holdAtStep175(path.join(example, 'train.ts'));
  }
  const env = { TONY_LOCAL_DIR: path.join(folder, 'root'), HADOOP_CONF_DIR: undefined };
  const submitted = startCommand(['submit', '--local', '--conf', file], { env });
  const [id] = await submitted.output(/local_\d+_\d+/);
  if (killed) {
    await submitted.output(/checkpoint of step 150/);
    process.kill(Number(await readFile(path.join(pids, '1-1'), 'utf8')), 'SIGKILL');
  }
  const { exitCode, stdout, stderr } = await submitted.result;
  expect(exitCode, stderr + stdout).toBe(0);
  const logs = await Promise.all([0, 1].map((index) => runCommand(['logs', id, `worker:${index}`], { env })));
  const lines = logs.map(({ stdout: text }) => text.match(/mean radius of generated points.*/g)?.at(-1) ?? text);
  const { stdout: events } = await runCommand(['events', id], { env });
  return { lines, events };
}

test('a GAN training with a killed worker ends with exactly the weights and state of an uninterrupted run', {
  timeout: 800_000,
}, async () => {
  const undisturbed = await run(false);
  const radius = Number(/points: ([\d.]+)/.exec(undisturbed.lines[0] ?? '')?.[1]);
  expect(Math.abs(radius - 1)).toBeLessThan(0.2);
  expect(undisturbed.lines[1]).toBe(undisturbed.lines[0]);
  const disturbed = await run(true);
  expect(disturbed.events).toMatch(/generation 2/);
  expect(disturbed.events).toMatch(/step 150/);
  expect(disturbed.lines).toEqual(undisturbed.lines);
});
