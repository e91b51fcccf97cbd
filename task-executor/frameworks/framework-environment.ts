import type { Job, Role } from '../../conf/job.ts';
import { isTensorBoardRole } from '../../conf/resolve/tensorboard-role.ts';
import type { Framework } from '../../conf/values/frameworks.ts';
import type { GangPlace } from './gang.ts';
import { type HorovodNetwork, horovodDefaults, horovodProcesses } from './horovod.ts';
import { jaxEnvironment } from './jax.ts';
import { pytorchDefaults, pytorchProcesses } from './pytorch.ts';
import { tensorflowEnvironment } from './tensorflow.ts';

/** Environment variables that a framework's processes use to find the processes in other tasks. */
export interface FrameworkEnvironment {
  /** Default variables, which the job's own variables override. */
  readonly defaults: Readonly<Record<string, string>>;
  /** The variables for each of the task's processes. */
  readonly processes: readonly Readonly<Record<string, string>>[];
}

export function frameworkEnvironment(framework: Framework, place: GangPlace, network: HorovodNetwork): FrameworkEnvironment {
  switch (framework) {
    case 'pytorch': {
      const processes = pytorchProcesses(place);
      return { defaults: pytorchDefaults(processes.length), processes };
    }
    case 'tensorflow':
      return { defaults: {}, processes: [tensorflowEnvironment(place)] };
    case 'jax':
      return { defaults: {}, processes: [jaxEnvironment(place)] };
    case 'horovod':
      return { defaults: horovodDefaults(network), processes: horovodProcesses(place, network) };
    case 'mpi':
      // mpirun itself sets the variables for its processes.
      return { defaults: {}, processes: [{ TONY_FRAMEWORK: 'mpi' }] };
    case 'tfjs':
    case 'none':
      return { defaults: {}, processes: [{}] };
  }
}

/**
 * Returns true if programs in this role inherit the socket that is bound to the task's port. With some frameworks, programs open their own
 * server on the port instead. For these programs, the executor keeps the port bound, without listening on it, while the program runs.
 */
export function inheritsPort({ framework, tensorboard }: Pick<Job, 'framework' | 'tensorboard'>, role: Role): boolean {
  return !opensOwnServer(framework) || (tensorboard.serve && isTensorBoardRole(role, tensorboard.memoryMb));
}

function opensOwnServer(framework: Framework): boolean {
  return framework === 'pytorch' || framework === 'tensorflow' || framework === 'jax';
}
