import { describe, expect, it } from 'vitest';
import type { FrameworkTask } from '../../conf/frameworks/framework.ts';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { member } from '../../conf/frameworks/testing/member.ts';
import { frameworkOf } from '../../conf/frameworks.ts';
import { isReservedVariable } from '../../conf/values/reserved-variables.ts';
import { TASK_ENVIRONMENT } from '../../contract/process/task-environment.ts';
import { PROGRAM_MARKER } from '../processes/guarded-process.ts';
import { processVariables, userEnvironment } from './task-folder.ts';

const NO_FRAMEWORK = { defaults: {}, processes: [{}] };
const task = {
  taskFile: '/c/task-2.json',
  jobId: 'application_1_0001',
  role: 'worker',
  index: 0,
  taskRank: 1,
  generation: 2,
  checkpoint: { dir: 'hdfs://nn/checkpoints', everySteps: null, everyMs: null, keep: 3 },
};

it("job variables override container variables, task variables override both, and the executor's own variables are omitted", () => {
  const container = { PATH: '/bin', A: 'container', HADOOP_TOKEN_FILE_LOCATION: '/secret', TONY_MASTER: 'am:1', GONE: undefined };
  expect(userEnvironment(container, { A: 'job', TONY_GENERATION: '9' }, task, NO_FRAMEWORK)).toEqual({
    PATH: '/bin',
    A: 'job',
    TONY_TASK_FILE: '/c/task-2.json',
    TONY_JOB_ID: 'application_1_0001',
    TONY_ROLE: 'worker',
    TONY_INDEX: '0',
    TONY_TASK_RANK: '1',
    TONY_GENERATION: '2',
    TONY_CHECKPOINT_DIR: 'hdfs://nn/checkpoints',
  });
});

it("job variables override the framework's defaults, but not its other variables", () => {
  const framework = { defaults: { A: 'default', B: 'default' }, processes: [{ RANK: '1' }] };
  expect(userEnvironment({ A: 'container', B: 'container' }, { A: 'job', RANK: '9' }, task, framework)).toMatchObject({
    A: 'job',
    B: 'default',
    RANK: '1',
  });
});

describe('ranks', () => {
  const members = [{ ...member('chief', 0, 0), processes: 1 }, { ...member('worker', 0, 1), processes: 2 }, member('evaluator', 0, null)];
  const place = (role: string): FrameworkTask => ({
    ...{ jobId: 'application_1_0001', generation: 1, role, index: 0, maxRestarts: 3, members },
    ...{ host: 'node0', resources: { memoryMb: 1024, vcores: 2, gpus: 0 }, servicePort: 0 },
  });
  const ranks = async (framework: FrameworkName, role: string) =>
    (await processVariables(frameworkOf(framework), place(role))).processes.map((each) =>
      ['TONY_RANK', 'TONY_LOCAL_RANK', 'TONY_WORLD_SIZE'].map((name) => each[name]),
    );

  it('count the processes of all tasks, as the variables of the framework do', async () => {
    expect(await ranks('pytorch', 'chief')).toEqual([['0', '0', '3']]);
    expect(await ranks('pytorch', 'worker')).toEqual([
      ['1', '0', '3'],
      ['2', '1', '3'],
    ]);
    const { processes } = await processVariables(frameworkOf('pytorch'), place('worker'));
    expect(processes.map(({ RANK, TONY_RANK }) => RANK === TONY_RANK)).toEqual([true, true]);
  });

  it('are not set for a task without a rank, and not if mpirun assigns them', async () => {
    const none = [undefined, undefined, undefined];
    expect(await ranks('pytorch', 'evaluator')).toEqual([none]);
    expect(await ranks('mpi', 'worker')).toEqual([none]);
    expect(userEnvironment({}, {}, { ...task, taskRank: null }, NO_FRAMEWORK)).not.toHaveProperty('TONY_TASK_RANK');
  });
});

it('job.yaml reserves every variable that is set for a task', () => {
  expect([...Object.values(TASK_ENVIRONMENT), PROGRAM_MARKER, 'TONY_FRAMEWORK'].filter((name) => !isReservedVariable(name))).toEqual([]);
  expect(['TONY_BACKEND', 'TONYA', 'PATH'].filter(isReservedVariable)).toEqual([]);
});
