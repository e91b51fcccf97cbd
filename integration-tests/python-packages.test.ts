import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { ROOT } from './command.ts';
import { jsonLines, temporaryFolder, USER, useCluster } from './harness.ts';

/** Ships Python packages to nodes that have only python3: those of a requirements file, and a packed environment. */

const cluster = useCluster();
const MAIN = `
import json, os, sys
import charset_normalizer.md, idna, tony
print(json.dumps({
    "idna": idna.__version__, "encoded": idna.encode("größe.de").decode(), "file": os.path.realpath(idna.__file__),
    "native": os.path.realpath(charset_normalizer.md.__file__), "prefix": sys.prefix, "version": "%d.%d" % sys.version_info[:2],
}))
`;

interface Printed {
  readonly idna: string;
  readonly encoded: string;
  readonly file: string;
  readonly native: string;
  readonly prefix: string;
  readonly version: string;
}

async function jobWith(python: object, command: string): Promise<string> {
  const folder = await temporaryFolder();
  writeFileSync(path.join(folder, 'main.py'), MAIN);
  writeFileSync(path.join(folder, 'requirements.txt'), 'idna==3.10\ncharset-normalizer==3.4.4\n');
  const worker = { instances: 2, resources: { memory: '256m' } };
  const job = { name: 'python', framework: 'none', runtime: 'system', command, python, roles: { worker } };
  writeFileSync(path.join(folder, 'job.yaml'), JSON.stringify(job));
  return path.join(folder, 'job.yaml');
}

async function submitted(
  file: string,
  env: Record<string, string> = {},
  set = 'priority=0',
): Promise<{ id: string; printed: Printed[]; stdout: string; output: string }> {
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--output', 'json', '--set', set], {
    env,
  });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  const id = jsonLines(stdout).find((line) => typeof line.id === 'string')?.id as string;
  const logs = await cluster.run(['logs', id]);
  const printed = [...logs.stdout.matchAll(/\{"idna.*\}/g)].map(([line]) => JSON.parse(line) as Printed);
  return { id, printed, stdout, output: logs.stdout };
}

const OWN_VERSION = execFileSync('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']).toString().trim();

test('a job finds the packages of its requirements file, and the next one needs no registry', async () => {
  const cache = await temporaryFolder();
  const file = await jobWith({ requirements: 'requirements.txt' }, 'python3 main.py && normalizer --version');
  const first = await submitted(file, { TONY_CACHE_DIR: cache });
  expect(first.printed).toHaveLength(2);
  for (const printed of first.printed) {
    expect(printed).toMatchObject({ idna: '3.10', encoded: 'xn--gre-6ka8i.de', version: OWN_VERSION });
    expect(printed.prefix).toMatch(/\/container_\w+\/venv$/);
    // YARN keeps one copy per node.
    expect(printed.file).toMatch(/\/usercache\/\w+\/filecache\/\d+\/environment\.tar\.gz\/lib\/python3\.\d+\/site-packages\/idna\//);
    expect(printed.native).toMatch(/\/filecache\/\d+\/environment\.tar\.gz\/.*\.so$/);
  }
  expect(first.output).toContain('Charset-Normalizer 3.4.4');
  const unreachable = { PIP_INDEX_URL: 'http://127.0.0.1:9/simple', PIP_NO_INDEX: '', PIP_FIND_LINKS: '' };
  const second = await submitted(file, { TONY_CACHE_DIR: cache, ...unreachable });
  expect(second.printed.map(({ file: place }) => place).sort()).toEqual(first.printed.map(({ file: place }) => place).sort());
  expect(second.stdout).toContain('using the 2 Python packages that pip chose for requirements.txt on ');
});

test('a job runs with the interpreter and the packages of a packed environment', async () => {
  const file = await jobWith({ archive: 'venv.tar.gz' }, 'python main.py');
  const folder = path.dirname(file);
  const venv = path.join(folder, 'packed');
  mkdirSync(venv);
  execFileSync('python3', ['-m', 'venv', '--without-pip', venv]);
  const python = path.join(venv, 'bin', 'python');
  const install = ['-m', 'pip', '--python', python, 'install', '--quiet', '-r', path.join(folder, 'requirements.txt')];
  execFileSync('python3', install);
  execFileSync('tar', ['czf', path.join(folder, 'venv.tar.gz'), '-C', venv, '.']);
  execFileSync('rm', ['-r', venv]);
  const { printed } = await submitted(file);
  expect(printed).toHaveLength(2);
  for (const each of printed) {
    expect(each).toMatchObject({ idna: '3.10', prefix: expect.stringMatching(/\/container_\w+\/environment$/) });
    expect(each.native).toMatch(/\/filecache\/\d+\/environment\.tar\.gz\/lib\//);
  }
});

/** The trials of the example, without tony. */
const BY_HAND = `
import json
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

images, digits = load_digits(return_X_y=True)
for c in (1, 10):
    for gamma in (0.0001, 0.001, 0.01):
        accuracy = cross_val_score(SVC(C=c, gamma=gamma), images, digits, cv=3).mean()
        print(json.dumps({"configuration": {"C": c, "gamma": gamma}, "metrics": {"accuracy": accuracy}}))
`;

interface SweepResults {
  readonly trials: readonly { readonly index: number; readonly configuration: object; readonly metrics: { readonly accuracy: number } }[];
}

test('the sweep of examples/scikit-learn has the results of a loop without tony', async () => {
  const example = path.join(ROOT, 'examples', 'scikit-learn');
  const { id } = await submitted(path.join(example, 'job.yaml'), {}, 'runtime=system');
  const history = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
  const results = await cluster.hdfsRead(`/user/${USER}/.tony-ts/output/${id}/sweep/results.json`);
  const { trials } = JSON.parse(results.toString()) as SweepResults;
  // By hand, the script runs with the packages that a NodeManager has unpacked.
  const data = path.join(cluster.state, 'data');
  const unpacked = (await readdir(data, { recursive: true })).find((name) => /\.tar\.gz\/lib\/[^/]+\/site-packages\/sklearn$/.test(name));
  const env = { ...process.env, PYTHONPATH: path.join(data, path.dirname(unpacked ?? 'none')), PYTHONDONTWRITEBYTECODE: '1' };
  const byHand = jsonLines(execFileSync('python3', ['-c', BY_HAND], { env }).toString());
  expect(byHand).toHaveLength(6);
  const inOrder = trials.toSorted((a, b) => a.index - b.index);
  expect(inOrder.map(({ configuration, metrics }) => ({ configuration, metrics }))).toEqual(byHand);
  const best = trials[0];
  expect(best?.metrics.accuracy).toBe(Math.max(...trials.map(({ metrics }) => metrics.accuracy)));
  expect(history.metrics).toMatchObject({ 'sweep/trials': 6, 'sweep/best': best?.metrics.accuracy });
  expect(history.notices).toEqual([expect.stringContaining('trial:0: the best of 6 trials is trial-0000')]);
});

test('on a node without the Python version of the packages, the task fails with a message', async () => {
  // A staging folder without a record of `doctor --probe`, with which the submission would be refused.
  const staging = `/user/${USER}/no-record`;
  onTestFinished(() => cluster.hdfsRemove(staging));
  const other = OWN_VERSION === '3.8' ? '3.9' : '3.8';
  const file = await jobWith({ requirements: 'requirements.txt', version: other }, 'python3 main.py');
  writeFileSync(path.join(path.dirname(file), 'requirements.txt'), 'six==1.17.0\n');
  const { stdout, exitCode } = await cluster.run(['submit', '--conf', file, '--set', 'roles.worker.restart.policy=never'], {
    env: { TONY_STAGING: staging },
  });
  expect({ exitCode, stdout }).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(`needs Python ${other} on the PATH`) });
});
