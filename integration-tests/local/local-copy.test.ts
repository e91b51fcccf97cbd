import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import { tfRecordFile } from '../../training/data/testing/files.ts';
import { runCommand } from '../command.ts';
import { jsonLines, temporaryFolder, until } from '../harness.ts';

test('the local copies of a rank survive a restart of its program, and are removed with the job', async () => {
  const folder = await temporaryFolder();
  const root = path.join(folder, 'root');
  const data = path.join(folder, 'data');
  await mkdir(data);
  for (let file = 0; file < 4; file++) {
    await writeFile(
      path.join(data, `part-${file}`),
      tfRecordFile(Array.from({ length: 300 }, (_, index) => `${file}/${index}`.padEnd(10_000))),
    );
  }
  const source = path.join(folder, 'source');
  await mkdir(source);
  // Rank 1 fails once, after its first epoch. All programs restart, and rank 0 keeps its container.
  await writeFile(
    path.join(source, 'read.ts'),
    `import { appendFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { data, join } from 'tony-ts/training';

const cluster = await join();
const scratch = path.join(path.dirname(process.env.TONY_TASK_FILE ?? ''), 'scratch');
const size = () => statSync(path.join(scratch, '.tony-ts-copies', 'blocks'), { throwIfNoEntry: false })?.size ?? 0;
const before = size();
const records = data.tfRecords(cluster.uri('records', 'part-*'), { localCopy: true }).map(String);
const { share } = cluster;
const ids: string[] = [];
for (const epoch of [0, 1]) {
  for await (const record of records.shuffle(100).read({ storage: cluster.storage, share, epoch })) if (epoch === 0) ids.push(record.trim());
}
appendFileSync('${folder}/rank-' + cluster.rank, JSON.stringify({ before, after: size(), ids, generation: cluster.generation, scratch }) + '\\n');
await cluster.barrier();
if (cluster.rank === 1 && cluster.generation === 1) process.exit(1);
if (cluster.generation === 1) await new Promise(() => setInterval(() => {}, 1000));
`,
  );
  const conf = path.join(folder, 'job.yaml');
  await writeFile(
    conf,
    `name: copies\nsource: source\ndata: {records: ${data}}\nroles: {worker: {instances: 2, command: node read.ts, resources: {memory: 512m}}}\n`,
  );
  const words = ['submit', '--local', '--output', 'json', '--conf', conf];
  const { exitCode, stdout, stderr } = await runCommand(words, { env: { TONY_LOCAL_DIR: root } });
  expect(exitCode, stderr + stdout).toBe(0);

  interface Reading {
    readonly before: number;
    readonly after: number;
    readonly ids: readonly string[];
    readonly generation: number;
    readonly scratch: string;
  }
  const readings = await Promise.all(
    [0, 1].map(async (rank) =>
      (await readFile(path.join(folder, `rank-${rank}`), 'utf8'))
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Reading),
    ),
  );
  const [survivor, failed] = readings as unknown as readonly [readonly [Reading, Reading], readonly [Reading, Reading]];
  expect(survivor[0]).toMatchObject({ before: 0, generation: 1 });
  expect(survivor[0].after).toBeGreaterThan(2 * 300 * 10_000);
  expect(survivor[0].after).toBeLessThan(2.1 * 300 * 10_000);
  expect(survivor[1]).toMatchObject({ before: survivor[0].after, after: survivor[0].after, scratch: survivor[0].scratch });
  expect(new Set([...survivor[1].ids, ...failed[1].ids]).size).toBe(1200);

  const { id: applicationId } = jsonLines(stdout).find(({ type }) => type === 'result') as { id: string };
  const { containers } = localPaths(root, applicationId);
  // The final status appears before the job's containers have ended.
  await until(() => !existsSync(survivor[0].scratch), { describe: () => readdir(containers, { recursive: true }) });
  const left = (await readdir(containers, { recursive: true })).filter((name) => name.includes('tony-ts-copies'));
  expect(left).toEqual([]);
});
