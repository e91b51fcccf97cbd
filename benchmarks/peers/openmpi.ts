import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { pythonWith } from '../../integration-tests/python-environment.ts';

const MPI4PY = '4.1.2';
const NUMPY = '2.4.6';

/** OpenMPI's in-place all-reduce over TCP between processes on this machine. */
export interface OpenMpi {
  /** Returns the duration of each call in ms, measured by the slowest rank. */
  run(numbers: number, calls: number): Promise<readonly number[]>;
  close(): Promise<void>;
}

/** Starts the ranks. Returns null if mpirun is not installed (Debian package openmpi-bin). */
export async function openMpi(size: number, progress: (line: string) => void): Promise<OpenMpi | null> {
  if (spawnSync('mpirun', ['--version']).status !== 0) {
    return null;
  }
  const python = await pythonWith(
    path.resolve('.cache', 'benchmarks', `mpi4py-${MPI4PY}`),
    [`mpi4py==${MPI4PY}`, `numpy==${NUMPY}`],
    progress,
  );
  const program = path.resolve('benchmarks', 'peers', 'openmpi-allreduce.py');
  const options = ['--allow-run-as-root', '--oversubscribe', '-np', String(size), '--mca', 'btl', 'tcp,self', '--bind-to', 'none'];
  const child = spawn('mpirun', [...options, python, program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done === true) {
      throw new Error("OpenMPI's processes have ended");
    }
    return value as string;
  };
  await answer();
  return {
    async run(numbers, calls) {
      child.stdin.write(`${numbers} ${calls}\n`);
      return JSON.parse(await answer()) as number[];
    },
    async close() {
      child.stdin.end();
      await exited;
    },
  };
}
