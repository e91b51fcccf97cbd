import { TASK_ENVIRONMENT, type TaskContext } from '../../training/process/task-context.ts';
import type { FrameworkEnvironment } from '../frameworks/framework-environment.ts';
import { EXECUTOR_ENVIRONMENT } from '../settings/settings.ts';

type TaskIdentity = Pick<TaskContext, 'applicationId' | 'role' | 'index' | 'rank' | 'worldSize' | 'generation' | 'checkpoint'>;

/** Variables that give access to the executor's credentials and connections. The program must not inherit them. */
const KEPT_BACK: ReadonlySet<string> = new Set([EXECUTOR_ENVIRONMENT.credentials, EXECUTOR_ENVIRONMENT.master]);

/**
 * Returns the environment for the user's program. Later sources take precedence: the container's variables, the framework's defaults, the
 * variables that the job and the role set, the framework's variables for the first process, and the task's identity.
 */
export function userEnvironment(
  container: Readonly<Record<string, string | undefined>>,
  job: Readonly<Record<string, string>>,
  task: TaskIdentity & { readonly taskFile: string },
  framework: FrameworkEnvironment,
): Record<string, string> {
  const inherited = Object.entries(container).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !KEPT_BACK.has(entry[0]),
  );
  return {
    ...Object.fromEntries(inherited),
    ...framework.defaults,
    ...job,
    ...framework.processes[0],
    [TASK_ENVIRONMENT.taskFile]: task.taskFile,
    [TASK_ENVIRONMENT.applicationId]: task.applicationId,
    [TASK_ENVIRONMENT.role]: task.role,
    [TASK_ENVIRONMENT.index]: String(task.index),
    [TASK_ENVIRONMENT.worldSize]: String(task.worldSize),
    [TASK_ENVIRONMENT.generation]: String(task.generation),
    [TASK_ENVIRONMENT.checkpointDir]: task.checkpoint.dir,
    ...(task.rank !== null && { [TASK_ENVIRONMENT.rank]: String(task.rank) }),
  };
}
