import { expect, it } from 'vitest';
import { isReservedVariable } from '../../conf/values/reserved-variables.ts';
import { TASK_ENVIRONMENT } from '../../contract/process/task-environment.ts';
import { PROGRAM_MARKER } from '../processes/guarded-process.ts';
import { userEnvironment } from './task-folder.ts';

const NO_FRAMEWORK = { defaults: {}, processes: [{}] };
const task = {
  taskFile: '/c/task-2.json',
  applicationId: 'application_1_0001',
  role: 'worker',
  index: 0,
  rank: 1,
  worldSize: 2,
  generation: 2,
  checkpoint: { dir: 'hdfs://nn/checkpoints', everySteps: 0, keep: 3 },
};

it("job variables override container variables, task variables override both, and the executor's own variables are omitted", () => {
  const container = { PATH: '/bin', A: 'container', HADOOP_TOKEN_FILE_LOCATION: '/secret', TONY_MASTER: 'am:1', GONE: undefined };
  expect(userEnvironment(container, { A: 'job', TONY_GENERATION: '9' }, task, NO_FRAMEWORK)).toEqual({
    PATH: '/bin',
    A: 'job',
    TONY_TASK_FILE: '/c/task-2.json',
    TONY_APPLICATION_ID: 'application_1_0001',
    TONY_ROLE: 'worker',
    TONY_INDEX: '0',
    TONY_RANK: '1',
    TONY_WORLD_SIZE: '2',
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

it('sets no rank for a task without a rank', () => {
  expect(userEnvironment({}, {}, { ...task, rank: null }, NO_FRAMEWORK)).not.toHaveProperty('TONY_RANK');
});

it('job.yaml reserves every variable that is set for a task', () => {
  expect([...Object.values(TASK_ENVIRONMENT), PROGRAM_MARKER, 'TONY_FRAMEWORK'].filter((name) => !isReservedVariable(name))).toEqual([]);
  expect(['TONY_BACKEND', 'TONYA', 'PATH'].filter(isReservedVariable)).toEqual([]);
});
