import { programName, scriptWords, simpleCommands } from '../../platform/text/shell-words.ts';
import type { FrameworkProblem, FrameworkRole } from '../frameworks/framework.ts';
import type { FrameworkName } from '../frameworks/names.ts';
import { DEFAULT_FRAMEWORK, frameworkOf, frameworksThat } from '../frameworks.ts';
import type { JobYaml } from '../job-schema.ts';
import { MOST_PROCESSES, processesOf } from '../processes.ts';
import type { YamlProblem } from '../yaml-file.ts';
import { kindOf, SERVING_ROLE } from './strategy-roles.ts';

/**
 * Rejects settings and commands that do not fit the job's framework.
 * @param isFrameworkSet whether job.yaml or the site file sets the framework
 */
export function frameworkProblems(file: JobYaml, isFrameworkSet: boolean): YamlProblem[] {
  return [
    ...processProblems(file),
    ...syncProblems(file),
    ...(frameworkOf(file.framework).trainingLibrary === 'never' ? [...trainingProblems(file), ...variableProblems(file)] : []),
    ...(isFrameworkSet ? ownProblems(file) : defaultProblems(file)),
  ];
}

/** Rejects the default framework for a job whose commands all run Python. */
function defaultProblems(file: JobYaml): YamlProblem[] {
  const roles = Object.keys(file.roles);
  if (roles.length === 0 || !roles.every((name) => runsPython(commandOf(file, name)))) {
    return [];
  }
  const others = frameworksThat(({ trainingLibrary }) => trainingLibrary === 'never', 'or');
  const message = `the default, ${DEFAULT_FRAMEWORK}, is for TensorFlow.js, but the commands run Python: set ${others}, or none for any other program`;
  return [{ path: ['framework'], message }];
}

/** Returns the mistakes that only the framework itself knows. */
function ownProblems(file: JobYaml): YamlProblem[] {
  const roles = Object.entries(file.roles).map(
    ([name, role]): FrameworkRole => ({
      name,
      ranked: kindOf(file, name) === 'gang',
      tasks: role.instances.max,
      processes: processesOf(file.processesPerTask, role),
      words: scriptWords(commandOf(file, name)),
    }),
  );
  const problems = frameworkOf(file.framework).validate?.(roles) ?? [];
  return problems.map((problem) => toYamlProblem(problem, file));
}

function toYamlProblem({ role, about, message }: FrameworkProblem, file: JobYaml): YamlProblem {
  switch (about) {
    case 'name':
      return { path: ['roles', role], atKey: true, message };
    case 'instances':
      return { path: ['roles', role, 'instances'], message };
    case 'command':
      return { path: file.roles[role]?.command === undefined ? ['command'] : ['roles', role, 'command'], message };
  }
}

/** Explains why a job with this framework cannot set `wire.security`, or returns undefined if it can. */
export function unprotected(framework: FrameworkName): string | undefined {
  const { trainingLibrary, title } = frameworkOf(framework);
  return trainingLibrary === 'never'
    ? `tony-ts protects only the connections of framework tfjs, and cannot protect those between ${title} programs`
    : undefined;
}

/** Rejects settings of the training library. */
function trainingProblems(file: JobYaml): YamlProblem[] {
  const { framework, strategy, wire, roles } = file;
  const problems: YamlProblem[] = [];
  const message = `applies only to framework tfjs: the code of ${frameworkOf(framework).title} programs determines how they exchange gradients; remove the key`;
  if (strategy.type === 'parameter-server') {
    problems.push({ path: ['strategy'], message });
  }
  if (wire.dtype !== 'float32') {
    problems.push({ path: ['wire', 'dtype'], message });
  }
  if (wire.security !== 'none') {
    problems.push({ path: ['wire', 'security'], message: `${unprotected(framework)}; write \`security: none\`` });
  }
  if (Object.hasOwn(roles, SERVING_ROLE) && (roles[SERVING_ROLE]?.kind ?? 'independent') === 'independent') {
    problems.push({
      path: ['roles', SERVING_ROLE],
      atKey: true,
      message: `tony-ts has no parameter servers for framework ${framework}: remove the role, or write \`kind: gang\` if its tasks start together with the others`,
    });
  }
  return problems;
}

/** Rejects environment variables that tony-ts sets for the framework. */
function variableProblems({ framework, env, roles }: JobYaml): YamlProblem[] {
  const environments: readonly (readonly [YamlProblem['path'], Readonly<Record<string, string>>])[] = [
    [['env'], env],
    ...Object.entries(roles).map(([name, role]) => [['roles', name, 'env'], role.env] as const),
  ];
  return environments.flatMap(([path, environment]) =>
    frameworkOf(framework)
      .reserved.filter((name) => Object.hasOwn(environment, name))
      .map((variable) => ({
        path: [...path, variable],
        atKey: true,
        message: `tony-ts sets this variable for framework ${framework}: remove it, or write \`framework: none\` to set all such variables yourself`,
      })),
  );
}

/**
 * Message for jobs of the training library that set `checkpoint.sync`. In such a job, the library and the executor would write different
 * files to the same folder.
 */
export const SYNC_WITH_LIBRARY =
  'programs of framework tfjs store their checkpoints with `join`: remove the key, or write `framework: none` for a program that does not use `join`';

function syncProblems({ framework, checkpoint: { sync } }: JobYaml): YamlProblem[] {
  return frameworkOf(framework).trainingLibrary === 'always' && sync !== undefined
    ? [{ path: ['checkpoint', 'sync'], message: SYNC_WITH_LIBRARY }]
    : [];
}

function processProblems(file: JobYaml): YamlProblem[] {
  const { framework, processesPerTask, roles } = file;
  if (frameworkOf(framework).runsProcesses !== true) {
    const others = frameworksThat(({ runsProcesses }) => runsProcesses === true, 'and');
    const message = `applies only to frameworks ${others}: programs of other frameworks use all GPUs of their task`;
    return processesPerTask === 'auto' ? [] : [{ path: ['processesPerTask'], message }];
  }
  return Object.entries(roles)
    .filter(([name, role]) => kindOf(file, name) === 'gang' && processesOf(processesPerTask, role) > MOST_PROCESSES)
    .map(([name]) => ({
      path: ['roles', name, 'resources', 'gpus'],
      message: `a task can run at most ${MOST_PROCESSES} processes: use more tasks with fewer GPUs, or set \`processesPerTask\``,
    }));
}

/** Returns true if the command's first program is Python. */
function runsPython(command: string): boolean {
  const [program = '', ...others] = simpleCommands(command)[0]?.words ?? [];
  return /^python[\d.]*$/.test(programName(program)) && others.length > 0;
}

function commandOf(file: JobYaml, name: string): string {
  return file.roles[name]?.command ?? file.command ?? '';
}
