import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { frozen, workers } from '../../conf/job.fixture.ts';
import { TRAINING_ENDED } from '../../contract/services/service-names.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { parseReport } from '../../task-executor/program/report-file.ts';
import { ServicesSocket } from '../../task-executor/program/services-socket.ts';
import { serveStorage } from '../../task-executor/storage/storage-services.ts';
import { ScalarReader } from '../../web/scalars/scalar-reader.ts';
import { COMMAND, environment, ROOT, runCommand } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';
import { pythonWithTools } from '../python-environment.ts';

async function python(script: string, environment: Readonly<Record<string, string>> = {}, interpreter = 'python3'): Promise<unknown> {
  const env = { PATH: process.env.PATH ?? '', PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1', ...environment };
  const { stdout } = await execute(interpreter, ['-c', script], { env });
  return JSON.parse(stdout);
}

/** Writes a task file and opens the services of an executor. Returns the environment of the task's programs. */
function rankVariables(rank: number): Record<string, string> {
  return { TONY_RANK: String(rank), TONY_WORLD_SIZE: '2', TONY_LOCAL_RANK: '0' };
}

async function startTask(
  root: string,
  generation: number,
  { everyMs = null as number | null, rank = 1 as number | null } = {},
): Promise<Record<string, string>> {
  const at = (name: string) => path.join(root, name);
  const job = {
    ...frozen({ roles: [workers()] }),
    checkpointDir: fileUri(at('checkpoints')),
    outputDir: fileUri(at('output')),
    data: { digits: fileUri(at('digits')) },
    cluster: { kind: 'local', directory: root } as const,
  };
  const socket = await ServicesSocket.open({
    folder: at(`services-${generation}`),
    ask: async (service, body, signal) => {
      if (service === TRAINING_ENDED) {
        return { head: Buffer.from(JSON.stringify({ answer: existsSync(at('ended')) })), body: new Uint8Array() };
      }
      return await serveStorage({ frozen: job, folder: root, s3: null }, { generation, notice: () => {} }, service, body, signal);
    },
    log: pino({ level: 'silent' }),
  });
  onTestFinished(() => socket.close());
  await Promise.all([writeFile(at('report'), ''), writeFile(at('order'), '')]);
  const member = { role: 'worker', index: 1, taskRank: rank, host: 'node', port: 4000 };
  const task = {
    ...{
      version: 1,
      jobId: job.jobId,
      jobName: 'a',
      role: 'worker',
      index: 1,
      taskRank: rank,
      taskWorldSize: 2,
      generation,
    },
    ...{
      members: [member],
      checkpoint: { dir: job.checkpointDir, everySteps: everyMs === null ? 7 : null, everyMs, keep: 3 },
      summaryDir: '',
      outputDir: '',
    },
    ...{ data: job.data, reportFile: at('report'), checkpointOrder: at('order'), services: socket.folder },
  };
  await writeFile(at('task'), JSON.stringify(task));
  return { TONY_TASK_FILE: at('task'), ...(rank !== null && rankVariables(rank)) };
}

test('the package passes mypy --strict, and has the version of the npm package', async () => {
  const words = ['-m', 'mypy', '--strict', '--cache-dir', path.join(await temporaryFolder(), 'mypy'), 'tony'];
  const { stdout } = await execute(await pythonWithTools(), words, { cwd: path.join(ROOT, 'python') });
  expect(stdout).toContain('Success');
  const { version } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as { readonly version: string };
  expect(await readFile(path.join(ROOT, 'python', 'pyproject.toml'), 'utf8')).toContain(`\nversion = "${version}"\n`);
});

const REPORTING = `
import sys, tony
again = tony.context().generation > 1
for step in range(31 if again else 1, 61):
    tony.report({"train/loss": (1000 if again else 0) + step}, step=step)
    if step == 40 and not again:
        sys.exit(3)
`;

test('reported metrics become curves: rank 0 draws them, and a restarted program replaces the steps that it repeats', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'report.py'), REPORTING);
  const file = path.join(folder, 'job.yaml');
  const roles = 'roles: {worker: {instances: 2}}';
  await writeFile(file, `name: curves\nframework: none\nruntime: system\ncommand: python3 report.py\n${roles}\n`);
  const root = path.join(folder, 'jobs');
  const { stdout } = await runCommand(['submit', '--local', '--conf', file, '--output', 'json'], {
    env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined },
  });
  const { state, summaryUri } = jsonLines(stdout).at(-1) as unknown as { state: string; summaryUri: string };
  expect(state).toBe('succeeded');
  const storage = createStorage({ hadoop: null, user: 'alice' });
  const reader = new ScalarReader({ storage, dir: summaryUri, log: pino({ level: 'silent' }), maxWaitMs: 60_000 });
  onTestFinished(() => {
    reader.close();
    storage.close();
  });
  const steps = Array.from({ length: 60 }, (_, at) => at + 1);
  const values = steps.map((step) => (step > 30 ? 1000 : 0) + step);
  expect(await reader.charts()).toMatchObject({ runs: [{ name: 'report', scalars: [{ tag: 'train/loss', steps, values }] }] });
});

const SAVING = `
import os, tempfile, tony
with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/layers")
    for name in ("model.pt", "layers/first.pt"):
        with open(f"{folder}/{name}", "w") as file:
            file.write(name)
    tony.save_output(folder, "model")
`;

test('files lists the files that a job has saved, and copies them', async () => {
  const folder = await temporaryFolder();
  const at = (name: string) => path.join(folder, name);
  await writeFile(at('save.py'), SAVING);
  await writeFile(at('job.yaml'), 'name: saving\nframework: none\nruntime: system\ncommand: python3 save.py\nroles: {worker: {}}\n');
  const env = { TONY_LOCAL_DIR: at('jobs'), HADOOP_CONF_DIR: undefined };
  const run = (...words: string[]) => runCommand(words, { env, cwd: folder });
  const { stdout } = await run('submit', '--local', 'job.yaml', '--quiet');
  const id = /local_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const listed = jsonLines((await run('files', id, '--output', 'json')).stdout);
  expect(listed.map(({ name, bytes }) => [name, bytes]).toSorted()).toEqual([
    ['model/layers/first.pt', 15],
    ['model/model.pt', 8],
  ]);
  expect((await run('files', id, 'model/model.pt')).stdout).toMatch(/^model\/model\.pt +8 B {2}\d{4}-/m);

  expect(await run('files', id, 'model', '--to', 'copy')).toMatchObject({
    exitCode: 0,
    stdout: `copied 2 files (23 B) to ${at('copy')}\n`,
  });
  expect(await readFile(at('copy/layers/first.pt'), 'utf8')).toBe('layers/first.pt');
  expect(await run('files', id, 'model/model.pt', '--to', 'copy/layers')).toMatchObject({ exitCode: 0 });
  expect(await readFile(at('copy/layers/model.pt'), 'utf8')).toBe('model.pt');
  for (const [words, message] of [
    [['model', '--to', 'copy'], 'already exists'],
    [['nothing'], 'has saved no file or folder nothing'],
    [['../..'], 'leaves the output folder'],
  ] as const) {
    expect(await run('files', id, ...words)).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringContaining(message) });
  }
  // Nothing is left of the copies that failed.
  expect((await readdir(folder)).toSorted()).toEqual(['copy', 'job.yaml', 'jobs', 'save.py']);

  const script = `
import json, sys
from tony.client import Client
client = Client(command=${JSON.stringify([process.execPath, COMMAND])}, env={"TONY_LOCAL_DIR": sys.argv[1], "HADOOP_CONF_DIR": ""})
client.copy_files(sys.argv[2], "model", sys.argv[3])
`;
  await writeFile(at('fetch.py'), script);
  const python = environment({ PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' });
  await execute('python3', [at('fetch.py'), at('jobs'), id, at('again')], { env: python });
  expect((await readdir(at('again'))).toSorted()).toEqual(['layers', 'model.pt']);
});

const READER = `
import json, os, tony
records = [record.decode() for batch in tony.feed("numbers", batch_size=50) for record in batch]
print(json.dumps(records))
`;
const PRODUCERS = `
import json, os, sys
from tony.client import Client, TonyError
client = Client(command=${JSON.stringify([process.execPath, COMMAND])}, env={"TONY_LOCAL_DIR": sys.argv[1], "HADOOP_CONF_DIR": ""})
job = client.submit(sys.argv[2], local=True)
numbers = [str(number) for number in range(2000)]
try:
    with client.open_feed(job.id, "numbers", producer="p") as feed:
        for number in numbers[:700]:
            feed.write(number)
        raise KeyError("the producer fails")
except KeyError:
    pass
# A producer that dies does not end the feed.
child = os.fork()
if child == 0:
    feed = client.open_feed(job.id, "numbers", producer="p", skip_received=True)
    for number in numbers[:1500]:
        feed.write(number)
    os._exit(0)
os.waitpid(child, 0)
with client.open_feed(job.id, "numbers", producer="p", skip_received=True) as feed:
    for number in numbers:
        feed.write(number.encode())
ended = client.wait(job.id)
lines = [line.text for line in client.logs(job.id, "worker:0")]
codes = []
for record in (3, None):
    feed = client.open_feed(job.id, "numbers")
    try:
        feed.write(record)
    except TonyError as error:
        codes.append(error.code)
    feed.close()
try:
    with client.open_feed(job.id, "numbers") as feed:
        feed.write("late")
except TonyError as error:
    codes.append(error.code)
print(json.dumps({"state": ended.state, "received": json.loads(lines[-1]) == numbers, "codes": codes}))
`;

test('a producer of a feed dies twice, and the job receives each record once', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'read.py'), READER);
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, 'name: feed\nframework: none\nruntime: system\ncommand: python3 read.py\nroles: {worker: {}}\n');
  const script = path.join(folder, 'produce.py');
  await writeFile(script, PRODUCERS);
  const env = environment({ PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' });
  const { stdout } = await execute('python3', [script, path.join(folder, 'jobs'), file], { env });
  expect(JSON.parse(stdout)).toEqual({ state: 'succeeded', received: true, codes: ['USAGE', 'USAGE', 'FEED_ENDED'] });
});

test('the client raises the code of the command, an unexpected exit, and a missing command', async () => {
  const script = `
import json, sys
from tony.client import Client, TonyError

codes = []
for command in (["no-such-command"], [sys.executable, "-c", "import sys; sys.exit('boom')"], [sys.executable, "-c", "print(1)"]):
    try:
        Client(command).status("application_1_0001")
    except TonyError as error:
        codes.append([error.code, error.message])
try:
    Client().kill("--yes")
except TonyError as error:
    codes.append([error.code, error.message])
print(json.dumps(codes))
`;
  expect(await python(script)).toEqual([
    ['COMMAND_NOT_FOUND', 'the command no-such-command does not exist on this machine'],
    ['COMMAND_FAILED', 'tony-ts status exited with code 1: boom'],
    ['COMMAND_FAILED', 'tony-ts printed a line that is not a JSON object: 1'],
    ['USAGE', "'--yes' is neither a job ID nor a task"],
  ]);
});

/** Stands in for Airflow, which takes minutes to install: the operator uses only these members of its base class. */
const AIRFLOW = `
import logging
class BaseOperator:
    def __init__(self, task_id):
        self.log = logging.getLogger(task_id)
`;

test('the Airflow operator runs a job and returns its metrics, and kills the job when Airflow kills the task', async () => {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'airflow'));
  await writeFile(path.join(folder, 'airflow', 'sdk.py'), AIRFLOW);
  await mkdir(path.join(folder, 'source'));
  const job = 'name: a\nframework: none\nruntime: system\nsource: source\nroles: {worker: {restart: {policy: never}}}\n';
  await writeFile(path.join(folder, 'job.yaml'), job);
  const script = `
import json
from tony.airflow import TonyOperator
from tony.client import TonyError

pushed = {}
class Instance:
    def xcom_push(self, key, value):
        pushed[key] = value
def operator(program):
    where = {"command": ["${process.execPath}", "${COMMAND}"], "env": {"TONY_LOCAL_DIR": "${folder}/local"}}
    return TonyOperator(task_id="train", conf="${folder}/job.yaml", set={"command": program}, local=True, **where)
done = operator("python3 -c 'import tony; tony.report(loss=0.5, step=7)'").execute({"ti": Instance()})
seen = [done["id"] == pushed["job_id"], done["state"], done["step"], done["metrics"]]
try:
    operator("exit 3").execute({"ti": Instance()})
except TonyError as error:
    seen.append([error.code, error.hint == f"Read the logs: \`tony-ts logs {pushed['job_id']}\`."])
endless = operator("sleep 100")
class Killing(Instance):
    def xcom_push(self, key, value):
        endless.on_kill()
try:
    endless.execute({"ti": Killing()})
except TonyError as error:
    seen.append([error.code, "was killed" in error.message])
print(json.dumps(seen))
`;
  const { TONY_CACHE_DIR = '', HOME = '' } = environment({});
  const found = await python(script, { PYTHONPATH: `${path.join(ROOT, 'python')}:${folder}`, TONY_CACHE_DIR, HOME });
  expect(found).toEqual([true, 'succeeded', 7, { loss: 0.5 }, ['JOB_FAILED', true], ['JOB_FAILED', true]]);
});

test('outside a job, the package behaves as for a single process', async () => {
  const script = `
import json, tony
tony.report(loss=0.5, step=1)
tony.save_checkpoint(1, ".")
task = tony.context()
print(json.dumps([task.rank, task.world_size, task.in_job, tony.latest_checkpoint(), tony.data_dir("a", default="b"), tony.should_checkpoint(100), list(tony.checkpoints()), tony.save_output(".", "a"), tony.summary_dir("a"), list(tony.claim(["x", "y"]))]))
`;
  expect(await python(script)).toEqual([0, 1, false, null, 'b', false, [], null, 'runs/a', ['x', 'y']]);
});

test('outside a job, a sweep runs all trials, and one with an output folder runs only the missing trials', async () => {
  const script = `
import json, tony

def tried(rates, **more):
    sweep, names = tony.sweep(tony.grid({"rate": rates, "deep": [True, None]}), metric="loss", mode="min", **more), []
    for trial in sweep:
        names.append(trial.name)
        if trial.configuration["deep"]:
            trial.fail("too deep, by far")
        else:
            trial.finish(loss=trial.configuration["rate"])
    return [names, sweep.best.name, [each.name for each in sweep.results]]
seen = [tried([2, 3, 1]), tried([2, 1], output="results"), tried([2, 1], output="results")]
codes = []
def unfinished():
    for trial in tony.sweep([{}], metric="loss", mode="min"):
        pass
def unnamed():
    for trial in tony.sweep([{}], metric="loss", mode="min"):
        trial.finish(accuracy=1)
for action in (lambda: tried([3], output="results"), unfinished, unnamed, lambda: tried([set()]), lambda: tony.grid({"a": "text"}),
               lambda: tony.random_search({"a": {"min": 0, "max": 1, "scale": "log"}}, 1), lambda: tony.sweep([{}], metric="a", mode="best"),
               lambda: tony.sweep([], metric="a", mode="min"), lambda: tried([float("nan")]),
               lambda: next(iter(tony.sweep([{}], metric="a", mode="min"))).finish(a="1"),
               lambda: tony.report(step=9.5), lambda: tony.report(step=-1), lambda: tony.report(loss="0.5", step=5)):
    try:
        action()
    except tony.TonyError as error:
        codes.append(error.code)
with open("seen.json", "w") as file:
    json.dump([seen, codes], file)
`;
  const folder = await temporaryFolder();
  const env = { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' };
  await execute('python3', ['-c', script], { cwd: folder, env });
  const [seen, codes] = JSON.parse(await readFile(path.join(folder, 'seen.json'), 'utf8')) as unknown[];
  const name = (index: number) => `trial-0000${index}`;
  expect(seen).toEqual([
    [[0, 1, 2, 3, 4, 5].map(name), name(5), [5, 1, 3, 0, 2, 4].map(name)],
    [[0, 1, 2, 3].map(name), name(3), [3, 1, 0, 2].map(name)],
    [[], name(3), [3, 1, 0, 2].map(name)],
  ]);
  expect(codes).toEqual(['OUTPUT_MISMATCH', 'TRIAL_FAILED', 'TRIAL_FAILED', ...Array.from({ length: 10 }, () => 'USAGE')]);
  const csv = (await readFile(path.join(folder, 'results', 'results.csv'), 'utf8')).split('\n');
  expect([csv[0], csv[1]?.split(',').slice(0, 4), csv[3]]).toEqual([
    'trial,rate,deep,loss,seconds,error',
    [name(3), '1', 'null', '1'],
    expect.stringMatching(/^trial-00000,2,true,,[\d.]+,"too deep, by far"$/),
  ]);
});

test('in a job, a later generation restores the checkpoint that an earlier one has saved, and reports reach the executor', async () => {
  // The path is too long for the kernel's limit on socket paths.
  const root = path.join(await temporaryFolder(), 'x'.repeat(100));
  await mkdir(path.join(root, 'digits'), { recursive: true });
  const save = `
import json, os, tony
task = tony.context()
ordered = tony.should_checkpoint(8)
os.mkdir("${root}/state")
open("${root}/state/weights", "w").write("weights")
tony.save_checkpoint(8, "${root}/state")
tony.report({"val/loss": 0.5, "other": float("nan")}, accuracy=0.25, step=9)
tony.notice("hello", about="greeting")
print(json.dumps([task.members[0].port, task.checkpoint_every_steps, ordered, tony.should_checkpoint(8), tony.should_checkpoint(14), tony.data_dir("digits"), tony.save_output("${root}/state", "model")]))
`;
  const [port, every, ordered, isDue, isMultiple, data, output] = (await python(save, await startTask(root, 1))) as unknown[];
  expect([port, every, ordered, isDue, isMultiple]).toEqual([4000, 7, true, false, true]);
  expect([data, output]).toEqual([path.join(root, 'digits'), fileUri(path.join(root, 'output', 'model'))]);
  expect(await readFile(path.join(root, 'output', 'model', 'weights'), 'utf8')).toBe('weights');
  const reports = (await readFile(path.join(root, 'report'), 'utf8')).trim().split('\n').map(parseReport);
  expect(reports).toEqual([
    { type: 'checkpoint', step: 8 },
    { type: 'progress', step: 9, metrics: { 'val/loss': 0.5, accuracy: 0.25 } },
    { type: 'notice', message: 'hello', about: 'greeting' },
  ]);

  const ranks = `
import json, tony
task = tony.context()
print(json.dumps([task.rank, task.world_size, task.local_rank, task.task_rank]))
`;
  expect(await python(ranks, { ...(await startTask(root, 1)), TONY_RANK: '5', TONY_WORLD_SIZE: '8', TONY_LOCAL_RANK: '1' })).toEqual([
    5, 8, 1, 1,
  ]);
  // RANK of another launcher has no effect, but a torchrun that the command starts determines the ranks of its processes.
  const process = { RANK: '5', WORLD_SIZE: '8', LOCAL_RANK: '1' };
  expect(await python(ranks, { ...(await startTask(root, 1)), ...process })).toEqual([1, 2, 0, 1]);
  const torchrun = { ...process, TORCHELASTIC_RUN_ID: 'none', PET_NNODES: '2' };
  expect(await python(ranks, { ...(await startTask(root, 1)), ...torchrun })).toEqual([5, 8, 1, 1]);
  // mpirun sets no rank for the command that contains it, and sets its own variables for the processes that it starts.
  const { TONY_TASK_FILE = '' } = await startTask(root, 1);
  expect(await python(ranks, { TONY_TASK_FILE })).toEqual([null, null, 0, 1]);
  const mpi = { OMPI_COMM_WORLD_RANK: '5', OMPI_COMM_WORLD_SIZE: '8', OMPI_COMM_WORLD_LOCAL_RANK: '1' };
  expect(await python(ranks, { TONY_TASK_FILE, ...mpi })).toEqual([5, 8, 1, 1]);

  const restore = `
import json, tony
restored = tony.latest_checkpoint()
try:
    tony.data_dir("letters")
except tony.TonyError as error:
    print(json.dumps([restored.step, open(restored.path + "/weights").read(), error.code, str(error)]))
`;
  expect(await python(restore, { ...(await startTask(root, 2)), ...rankVariables(0) })).toEqual([
    ...[8, 'weights', 'DATA_INVALID'],
    expect.stringContaining('no input folder named letters (data: digits)'),
  ]);
  expect(parseReport(await readFile(path.join(root, 'report'), 'utf8'))).toEqual({
    type: 'notice',
    message: 'training resumes from checkpoint step-8',
    about: 'resume',
  });
});

test('an evaluator gets each newest checkpoint, the last one too, until the training has ended', async () => {
  const root = await temporaryFolder();
  const script = `
import json, os, tony
os.mkdir("${root}/state")
def save(step):
    open("${root}/state/weights", "w").write(f"weights {step}")
    tony.save_checkpoint(step, "${root}/state")
save(1)
seen = []
for checkpoint in tony.checkpoints(every_seconds=0.05):
    seen.append([checkpoint.step, open(checkpoint.path + "/weights").read()])
    if checkpoint.step == 1:
        save(2)
        save(3)
    elif checkpoint.step == 3:
        save(4)
        open("${root}/ended", "w").close()
print(json.dumps([tony.context().rank, tony.context().world_size, seen]))
`;
  const steps = [1, 3, 4].map((step) => [step, `weights ${step}`]);
  expect(await python(script, await startTask(root, 1, { rank: null }))).toEqual([null, null, steps]);
  const inRank = 'import tony\ntry:\n    tony.checkpoints()\nexcept tony.TonyError as error:\n    print(f\'"{error.code}"\')';
  expect(await python(inRank, await startTask(root, 1))).toBe('USAGE');
});

test('with a time between checkpoints, rank 0 should save one when the time has passed, and other ranks do not measure it', async () => {
  const root = await temporaryFolder();
  const script = `
import json, os, time, tony
os.remove("${root}/order")
os.makedirs("${root}/state", exist_ok=True)
open("${root}/state/weights", "w").write("weights")
due = [tony.should_checkpoint(7)]
time.sleep(0.3)
due.append(tony.should_checkpoint(8))
tony.save_checkpoint(8, "${root}/state")
due.append(tony.should_checkpoint(9))
print(json.dumps([tony.context().checkpoint_every_steps, tony.context().checkpoint_every_seconds, due]))
`;
  expect(await python(script, await startTask(root, 1, { everyMs: 200, rank: 0 }))).toEqual([null, 0.2, [false, true, false]]);
  expect(await python(script, await startTask(root, 1, { everyMs: 200 }))).toEqual([null, 0.2, [false, false, false]]);
});

test('an uncaught usage error of the package reports that a restart would repeat it, and no other exception does', async () => {
  const root = await temporaryFolder();
  const env = await startTask(root, 1);
  const reports = async (script: string) => {
    await writeFile(path.join(root, 'report'), '');
    await expect(python(script, env)).rejects.toThrow('Traceback');
    const text = await readFile(path.join(root, 'report'), 'utf8');
    return text.split('\n').filter(Boolean).map(parseReport);
  };
  const usage = 'tony.sweep([], metric="a", mode="best")';
  expect(await reports(`import tony; ${usage}`)).toEqual([{ type: 'permanent-failure' }]);
  for (const other of ['raise ValueError("own")', `\ntry:\n  ${usage}\nexcept tony.TonyError as error:\n  raise ValueError() from error`]) {
    expect(await reports(`import tony; ${other}`)).toEqual([]);
  }
  expect(await reports('import tony; tony.data_dir("letters")')).toEqual([]);
});

test('fsspec opens, lists, moves and removes files of the job, and its errors are those of Python', async () => {
  const root = await temporaryFolder();
  await mkdir(path.join(root, 'digits'), { recursive: true });
  const script = `
import fsspec, json, os, tony
files = fsspec.filesystem("tony")
with fsspec.open("tony://digits/a/one.txt", "w") as file:
    file.write("one\\nzwölf\\n")
with fsspec.open("tony://digits/a/b/two.gz", "wb", compression="infer") as file:
    file.write(b"two")
seen = [sorted(os.path.relpath(each, tony.context().data_uris["digits"]) for each in files.find("tony://digits"))]
seen.append([each["type"] for each in files.ls("tony://digits/a", detail=True)])
seen.append(len(files.glob("tony://digits/*/*.txt")))
with fsspec.open("tony://digits/a/b/two.gz", "rb", compression="infer") as file:
    seen.append(file.read().decode())
files.mv("tony://digits/a/one.txt", "tony://digits/a/three.txt")
files.cp("tony://digits/a/three.txt", "tony://digits/four.txt")
seen.append([files.cat("tony://digits/four.txt").decode(), files.size("tony://digits/four.txt"), files.exists("tony://digits/a/one.txt")])
files.rm("tony://digits/a", recursive=True)
seen.append([os.path.basename(each) for each in files.ls("tony://digits", detail=False)])
for action in (lambda: files.ls("tony://digits/none"), lambda: files.info("tony://letters/a"), lambda: files.open("ftp://a/b")):
    try:
        action()
    except tony.TonyError as error:
        seen.append([error.code, isinstance(error, FileNotFoundError)])
print(json.dumps(seen))
`;
  expect(await python(script, await startTask(root, 1), await pythonWithTools())).toEqual([
    ['a/b/two.gz', 'a/one.txt'],
    ['directory', 'file'],
    1,
    'two',
    ['one\nzwölf\n', 11, false],
    ['four.txt'],
    ['NOT_FOUND', true],
    ['DATA_INVALID', false],
    ['STORAGE_DENIED', false],
  ]);
});

test('outside a job, tony.open reads and writes file:// URIs only', async () => {
  const root = await temporaryFolder();
  const script = `
import json, tony
seen = []
with tony.open("file://${root}/a/b%20c.txt", "x") as file:
    file.write("text")
file = tony.open("file://${root}/a/lost.txt", "w")
file.write("not closed")
del file
with tony.open("file://${root}/a/b%20c.txt") as file:
    seen.append(file.read())
for call in (lambda: tony.open("hdfs://ns/a"), lambda: tony.open("/a"), lambda: tony.feed("clicks", 10), lambda: tony.open("file:///a", "a")):
    try:
        call()
    except (tony.TonyError, ValueError) as error:
        seen.append(getattr(error, "code", str(error)))
print(json.dumps(seen))
`;
  expect(await python(script)).toEqual(['text', 'USAGE', 'STORAGE_DENIED', 'USAGE', "invalid mode: 'a'"]);
  expect(await readdir(path.join(root, 'a'))).toEqual(['b c.txt']);
});

/** Names of files whose characters have a special meaning in URIs or patterns. */
const ODD_NAMES = ['plain.txt', 'p%20 q.txt', '50%.txt', 'a b', 'ü?#&+;=.txt', 'a[1]*{x}.txt', "!'()~-_.txt", '%25%41'];

test('join_uri and joinUri take a name literally on every file system', async () => {
  const root = await temporaryFolder();
  const script = `
import json, os, tony
names = json.loads(os.environ["NAMES"])
folders = ["file://${root}/out", "hdfs://ns/out/", "s3://bucket/out"]
joined = [[tony.join_uri(folder, name) for name in names] for folder in folders]
for uri, name in zip(joined[0], names):
    with tony.open(uri, "w") as file:
        file.write(name)
print(json.dumps({"joined": joined, "nested": tony.join_uri("hdfs://ns/", "a/b", "c"), "found": sorted(os.listdir("${root}/out"))}))
`;
  const folders = [`file://${root}/out`, 'hdfs://ns/out/', 's3://bucket/out'];
  expect(await python(script, { NAMES: JSON.stringify(ODD_NAMES), LC_ALL: 'C.UTF-8' })).toEqual({
    joined: folders.map((folder) => ODD_NAMES.map((name) => joinUri(folder, name))),
    nested: 'hdfs://ns/a/b/c',
    found: [...ODD_NAMES].sort((a, b) => (a < b ? -1 : 1)),
  });
});

test('in a job, tony://NAME/PATH takes the path literally', async () => {
  const root = await temporaryFolder();
  await mkdir(path.join(root, 'digits'));
  await Promise.all(ODD_NAMES.map((name) => writeFile(path.join(root, 'digits', name), name)));
  const script = `
import json, os, tony
print(json.dumps([tony.open("tony://digits/" + name).read() for name in json.loads(os.environ["NAMES"])]))
`;
  const environment = { ...(await startTask(root, 1)), NAMES: JSON.stringify(ODD_NAMES), LC_ALL: 'C.UTF-8' };
  expect(await python(script, environment)).toEqual(ODD_NAMES);
});

test('every function of the package rejects invalid arguments as USAGE, in and outside a job', async () => {
  const root = await temporaryFolder();
  const script = `
import json, math, os, tony

WRONG_COUNT = [math.nan, "3", -1, 1.5, None, True, [1]]
WRONG_TEXT = [None, 3, b"a", ["a"], math.nan]
grid = tony.grid({"a": [1]})
CASES = {
    "step of report": (lambda value: tony.report(step=value), [each for each in WRONG_COUNT if each != 1.0 or each is True]),
    "metric of report": (lambda value: tony.report(loss=value, step=1), ["0.5", None, [1, 2], {}]),
    "metrics of report": (lambda value: tony.report(value, step=1), [1, "loss", ["loss"], {1: 0.5}]),
    "step of save_checkpoint": (lambda value: tony.save_checkpoint(value, os.environ["ROOT"]), WRONG_COUNT),
    "path of save_checkpoint": (lambda value: tony.save_checkpoint(1, value), [None, 3, b"a", ""]),
    "shards of save_checkpoint": (lambda value: tony.save_checkpoint(1, os.environ["ROOT"], shards=value), ["yes", 1, None]),
    "path of save_output": (lambda value: tony.save_output(value, "a"), [None, 3, b"a", ""]),
    "name of save_output": (lambda value: tony.save_output(os.environ["ROOT"], value), [*WRONG_TEXT, "", "../x", ".."]),
    "name of data_dir": (lambda value: tony.data_dir(value, default="/tmp"), WRONG_TEXT),
    "uri of open": (lambda value: tony.open(value), WRONG_TEXT),
    "folder of join_uri": (lambda value: tony.join_uri(value, "a"), [*WRONG_TEXT, "", "/tmp"]),
    "name of join_uri": (lambda value: tony.join_uri("file:///tmp", value), WRONG_TEXT),
    "items of claim": (lambda value: tony.claim(value), ["abc", b"abc", None, 3, [1], ["a", None], {"a": 1}]),
    "name of feed": (lambda value: tony.feed(value, 1), [*WRONG_TEXT, "", "a b"]),
    "batch_size of feed": (lambda value: tony.feed("a", value), [*WRONG_COUNT, 0]),
    "producers of feed": (lambda value: tony.feed("a", 1, value), [*WRONG_COUNT, 0]),
    "message of notice": (lambda value: tony.notice(value), WRONG_TEXT),
    "about of notice": (lambda value: tony.notice("a", value), WRONG_TEXT),
    "space of grid": (lambda value: tony.grid(value), [None, [1], "a", {1: [2]}, {"a": []}, {"a": "xyz"}, {"a": 3}, {"a": [math.nan]}]),
    "space of random_search": (lambda value: tony.random_search(value, 1), [None, [1], {"a": {"min": 0}}, {"a": {"min": 0, "max": 1, "scal": "log"}}]),
    "trials of random_search": (lambda value: tony.random_search({"a": [1]}, value), [*WRONG_COUNT, 0]),
    "seed of random_search": (lambda value: tony.random_search({"a": [1]}, 1, value), [math.nan, "3", 1.5, None, True, 2**60]),
    "configurations of sweep": (lambda value: tony.sweep(value, metric="m", mode="min"), [[], None, 3, "abc", [1], {"a": [1]}]),
    "metric of sweep": (lambda value: tony.sweep(grid, metric=value, mode="min"), [*WRONG_TEXT, ""]),
    "mode of sweep": (lambda value: tony.sweep(grid, metric="m", mode=value), ["maximize", None, 3, ["min"]]),
    "step of should_checkpoint": (lambda value: tony.should_checkpoint(value), [math.nan, "3", -1, 1.5, True, [1]]),
    "every_seconds of checkpoints": (lambda value: tony.checkpoints(value), [0, -1, math.nan, math.inf, "3", None, True]),
    "output of sweep": (lambda value: tony.sweep(grid, metric="m", mode="min", output=value), [3, b"a", math.nan]),
    "version of sweep": (lambda value: tony.sweep(grid, metric="m", mode="min", version=value), WRONG_TEXT),
}
accepted = []
for name, (call, values) in CASES.items():
    for value in values:
        try:
            call(value)
        except tony.TonyError as error:
            if error.code == "USAGE":
                continue
            accepted.append(f"{name} {value!r}: {error.code}")
        except Exception as error:
            accepted.append(f"{name} {value!r}: {type(error).__name__} {error}")
        else:
            accepted.append(f"{name} {value!r}: accepted")
print(json.dumps(accepted))
`;
  expect(await python(script, { ROOT: root })).toEqual([]);
  expect(await python(script, { ROOT: root, ...(await startTask(root, 1)) })).toEqual([]);
});

test('the tasks of a role claim the same items, or the first item that differs is named', async () => {
  const root = await temporaryFolder();
  const env = await startTask(root, 1);
  // The ApplicationMaster is not part of this test, so the claims end when they request the first item.
  const claims = async (...lists: readonly (readonly [items: readonly string[], name?: string])[]) => {
    const script = `
import json, os, tony
results = []
for items, *name in json.loads(os.environ["LISTS"]):
    try:
        tony.claim(items, *name)
        results.append("same")
    except tony.TonyError as error:
        results.append(f"{error.code} {error.message}")
print(json.dumps(results))
`;
    return await python(script, { ...env, LISTS: JSON.stringify(lists) });
  };
  const differ = 'USAGE the items of tony.claim differ between the tasks of role worker: item';
  const first = 'in the list that the first task has claimed';
  expect(await claims([['a', 'b']], [['x']], [['ü'], 'named'])).toEqual(['same', 'same', 'same']);
  expect(await claims([['a', 'b']], [['x']], [['ü'], 'named'])).toEqual(['same', 'same', 'same']);
  expect(await claims([['a', 'b', 'c']], [['y']], [[], 'named'], [['new'], 'other'])).toEqual([
    `${differ} 2 is 'c' here, and missing ${first} (3 and 2 items)`,
    `${differ} 0 is 'y' here, and 'x' ${first} (1 and 1 items)`,
    `${differ} 0 is missing here, and 'ü' ${first} (0 and 1 items)`,
    'same',
  ]);
  expect(await claims([['b', 'a']])).toEqual([`${differ} 0 is 'b' here, and 'a' ${first} (2 and 2 items)`]);
  // This list is longer than one read.
  const script =
    'import os, tony; items = [f"hdfs://ns/{\'x\' * 90}/{n}" for n in range(90000)]; tony.claim(items, "long"); print(len(items))';
  expect([await python(script, env), await python(script, env)]).toEqual([90_000, 90_000]);
});
