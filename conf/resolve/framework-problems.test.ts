import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { parseJob } from './load-job.ts';

/** Returns the mistakes in a job file, without their positions. */
function mistakes(yaml: string): string[] {
  try {
    parseJob(`name: a\n${yaml}`, { file: 'job.yaml', folder: '/nowhere' });
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(TonyError);
    return (error as TonyError).message
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/^ *\S+ +/, ''));
  }
}

test.each(['python3 train.py', 'LR=0.1 /opt/torch/bin/python train.py', 'python3.11 -m trainer'])(
  'a job that runs %s must set a framework',
  (command) => {
    const roles = 'roles: {worker: {}}';
    expect(mistakes(`command: ${command}\n${roles}`)).toEqual([
      expect.stringMatching(/^framework: the default, tfjs, is for TensorFlow\.js/),
    ]);
    expect(mistakes(`framework: tfjs\ncommand: ${command}\n${roles}`)).toEqual([]);
    expect(mistakes(`command: node train.ts\nroles: {worker: {}, reader: {command: ${command}}}`)).toEqual([]);
  },
);

const torchrun = (command: string, more = '') =>
  mistakes(`framework: pytorch\ncommand: ${command}\nroles: {worker: {instances: 2${more}}}`);

test.each([
  'torchrun --nproc_per_node 2 train.py',
  'torchrun --nnodes=2 train.py',
  'torchrun --nnodes 1:4 train.py',
  'torchrun train.py --nnodes 4',
  'cd src; python3 -m torch.distributed.run --nnodes 2 train.py',
])('the command %s may start torchrun in each of two tasks', (command) => {
  expect(torchrun(command)).toEqual([]);
});

test.each([
  ['torchrun --standalone --nproc-per-node 2 train.py', 'train separately in each task'],
  ['python3 -m torch.distributed.launch --nnodes=1 train.py', 'train separately in each task'],
  ['torchrun --nnodes=1:1 train.py', 'train separately in each task'],
  ['/opt/bin/torchrun --nnodes 4 train.py', 'train with 4 nodes'],
  [`bash -c 'cd x && torchrun --nnodes 4 train.py'`, 'train with 4 nodes'],
])('the command %s would %s', (command, problem) => {
  expect(torchrun(command)).toEqual([expect.stringContaining(`command: torchrun would ${problem}`)]);
});

test('torchrun must not start once for each GPU of a task', () => {
  const gpus = ', resources: {gpus: 4}';
  const message = expect.stringContaining('each task would run torchrun 4 times');
  expect(torchrun('torchrun train.py', gpus)).toEqual([message]);
  expect(torchrun('torchrun train.py', `${gpus}}, evaluator: {command: torchrun --standalone x.py`)).toEqual([message]);
  expect(mistakes('framework: pytorch\nprocessesPerTask: 1\ncommand: torchrun train.py\nroles: {worker: {resources: {gpus: 4}}}')).toEqual(
    [],
  );
});

test('a Horovod job does not start horovodrun', () => {
  const job = (framework: string) => `framework: ${framework}\ncommand: horovodrun -np 2 python3 train.py\nroles: {worker: {instances: 2}}`;
  expect(mistakes(job('horovod'))).toEqual([expect.stringContaining('command: tony-ts starts each process itself')]);
  expect(mistakes(job('none'))).toEqual([]);
});
