import type { JobYaml } from '../job-schema.ts';
import { processesOf } from '../processes.ts';
import type { YamlProblem } from '../yaml-file.ts';
import { isRanked } from './strategy-roles.ts';

const PYTHON = /^\s*(\w+=\S*\s+)*(\S*\/)?python[\d.]*\s/;
const TORCHRUN = /(^|[\s;&|(/])torchrun\s|\s-m\s+torch\.distributed\.(run|launch)\s/;
const HOROVODRUN = /(^|[\s;&|(/])horovodrun\s/;

/**
 * Rejects commands that would not do what the user expects with the job's framework.
 * @param isFrameworkSet whether job.yaml or the site file sets the framework
 */
export function commandProblems(file: JobYaml, isFrameworkSet: boolean): YamlProblem[] {
  const roles = Object.keys(file.roles);
  if (!isFrameworkSet && roles.length > 0 && roles.every((name) => PYTHON.test(commandOf(file, name)))) {
    const message =
      'the default, tfjs, is for TensorFlow.js, but the commands run Python: set pytorch, tensorflow, jax, horovod or mpi, or none for any other program';
    return [{ path: ['framework'], message }];
  }
  return roles.flatMap((name) => {
    const message = launcherProblem(file, name);
    return message === undefined ? [] : [{ path: pathOfCommand(file, name), message }];
  });
}

/** Returns the mistake in a command that starts a framework's own launcher. */
function launcherProblem(file: JobYaml, name: string): string | undefined {
  const command = commandOf(file, name);
  const role = file.roles[name] as JobYaml['roles'][string];
  if (file.framework === 'horovod' && HOROVODRUN.test(command)) {
    return 'tony-ts starts each process itself: write the command without horovodrun and its options';
  }
  if (file.framework !== 'pytorch' || !isRanked(name, role) || !TORCHRUN.test(command)) {
    return undefined;
  }
  const processes = processesOf(file.processesPerTask, role);
  if (processes > 1) {
    return `each task would run torchrun ${processes} times: write the command without torchrun and its options, or set \`processesPerTask: 1\``;
  }
  const nodes = nodesOf(command);
  const ranked = Object.entries(file.roles).filter(([each, other]) => isRanked(each, other));
  const tasks = ranked.reduce((sum, [, { instances }]) => sum + instances.max, 0);
  return nodes === undefined || nodes === tasks
    ? undefined
    : `torchrun would train ${nodes === 1 ? 'separately in each task' : `with ${nodes} nodes`}, but the job has ${tasks} tasks with ranks: remove --nnodes and --standalone, because tony-ts tells torchrun the number of nodes`;
}

/** Returns the number of nodes for which a command starts torchrun, or undefined if the command does not fix this number. */
function nodesOf(command: string): number | undefined {
  const nodes = /\s--nnodes[\s=](\d+)(?=\s)/.exec(command)?.[1];
  return /\s--standalone\s/.test(command) ? 1 : nodes === undefined ? undefined : Number(nodes);
}

function commandOf(file: JobYaml, name: string): string {
  return file.roles[name]?.command ?? file.command ?? '';
}

function pathOfCommand(file: JobYaml, name: string): YamlProblem['path'] {
  return file.roles[name]?.command === undefined ? ['command'] : ['roles', name, 'command'];
}
