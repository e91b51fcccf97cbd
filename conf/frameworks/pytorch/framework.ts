import { programName } from '../../../platform/text/shell-words.ts';
import type { Framework, FrameworkRole } from '../framework.ts';
import { pytorchDefaults, pytorchProcesses } from './variables.ts';

const TORCHRUN_MODULE = /^torch\.distributed\.(run|launch)$/;

export const pytorch: Framework = {
  title: 'PyTorch',
  programs: "Python programs that receive the framework's environment variables",
  trainingLibrary: 'never',
  reserved: [
    'MASTER_ADDR',
    'MASTER_PORT',
    'RANK',
    'WORLD_SIZE',
    'LOCAL_RANK',
    'LOCAL_WORLD_SIZE',
    'GROUP_RANK',
    'GROUP_WORLD_SIZE',
    'ROLE_NAME',
    'ROLE_RANK',
    'ROLE_WORLD_SIZE',
    'TORCHELASTIC_RUN_ID',
    'TORCHELASTIC_RESTART_COUNT',
    'TORCHELASTIC_MAX_RESTARTS',
    'TORCHELASTIC_USE_AGENT_STORE',
    'PET_NNODES',
    'PET_NODE_RANK',
    'PET_MASTER_ADDR',
    'PET_MASTER_PORT',
  ],
  runsProcesses: true,
  opensServer: true,
  validate(roles) {
    const ranked = roles.filter((role) => role.ranked);
    const tasks = ranked.reduce((sum, role) => sum + role.tasks, 0);
    return ranked.flatMap((role) => {
      const message = torchrunProblem(role, tasks);
      return message === undefined ? [] : [{ role: role.name, about: 'command', message }];
    });
  },
  variables(task) {
    const processes = pytorchProcesses(task);
    return { defaults: pytorchDefaults(processes.length, task.resources.vcores), processes };
  },
};

/** Returns the mistake in a command that starts torchrun in each task. */
function torchrunProblem({ words, processes }: FrameworkRole, tasks: number): string | undefined {
  if (!words.some((word, at) => programName(word) === 'torchrun' || (words[at - 1] === '-m' && TORCHRUN_MODULE.test(word)))) {
    return undefined;
  }
  if (processes > 1) {
    return `each task would run torchrun ${processes} times: write the command without torchrun and its options, or set \`processesPerTask: 1\``;
  }
  const nodes = nodesOf(words);
  return nodes === undefined || nodes === tasks
    ? undefined
    : `torchrun would train ${nodes === 1 ? 'separately in each task' : `with ${nodes} nodes`}, but the job has ${tasks} tasks with ranks: remove --nnodes and --standalone, because tony-ts tells torchrun the number of nodes`;
}

/** Returns the number of nodes for which a command starts torchrun, or undefined if the command does not fix this number. */
function nodesOf(words: readonly string[]): number | undefined {
  // The options after the script are the script's own.
  const script = words.findIndex((word) => word.endsWith('.py'));
  const options = script < 0 ? words : words.slice(0, script);
  const [, least, most = least] = /(?:^| )--nnodes[ =](\d+)(?::(\d+))?(?= |$)/.exec(options.join(' ')) ?? [];
  return options.includes('--standalone') ? 1 : least === undefined || least !== most ? undefined : Number(least);
}
