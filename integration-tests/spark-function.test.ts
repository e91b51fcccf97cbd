import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { COMMAND, environment, ROOT } from './command.ts';
import { execute } from './execute.ts';
import { temporaryFolder, useCluster } from './harness.ts';
import { sparkEnvironment } from './spark-environment.ts';

const cluster = useCluster();

const SCRIPT = `
import importlib.util, json, sys
import tony
from tony import spark
import helper

class Odd(ValueError):
    pass

def train(x):
    import idna
    print("a line of output")
    tony.report(loss=0.5, step=3)
    return [helper.double(x), idna.__version__, tony.context().job_id, importlib.util.find_spec("pyspark") is None]

def fails():
    if tony.context().rank == 1:
        raise Odd("rank 1")
    tony.context().rank or __import__("time").sleep(600)

conf = {"runtime": "system", "roles": {"worker": {"instances": 2, "resources": {"memory": "256m"}}}}
seen = [spark.run(train, conf, [4], requirements=["idna==3.10"])]
try:
    spark.run(fails, conf, quiet=True)
except Odd as error:
    seen.append([str(error), str(error.__cause__)])
print()
print(json.dumps(seen))
`;

test('a function runs on the cluster with packages that the nodes do not have, and returns its value or raises its exception', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'helper.py'), 'def double(x):\n    return 2 * x\n');
  await writeFile(path.join(folder, 'main.py'), SCRIPT);
  const python = {
    PYTHONPATH: path.join(ROOT, 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
    TONY_COMMAND: `'${process.execPath}' '${COMMAND}'`,
  };
  const env = environment({ ...cluster.clientEnvironment(), ...python });
  const { stdout, stderr } = await execute(await sparkEnvironment(), ['main.py'], { cwd: folder, env });
  const [value, raised] = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as [unknown, [string, string]];
  const [id] = /application_\d+_\d+/.exec(stderr) ?? [];
  expect(value).toEqual([8, '3.10', id, true]);
  expect(stdout).toMatch(/^a line of output$/m);
  expect(stderr).toContain(`${id}: submitted, page: http`);
  expect(raised).toEqual(['rank 1', expect.stringMatching(/rank 1 \(worker:1\) in application_\d+_\d+:\nTraceback[\s\S]*Odd: rank 1/)]);
});
