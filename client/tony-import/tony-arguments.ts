import { basename, isAbsolute } from 'node:path';
import type { OptionNames } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { listedVariables } from './tony-values.ts';

/** Arguments for TonY's ClusterSubmitter, which complement the configuration file. */
export interface TonyArguments {
  /** Value of `-executes`: the program, or the complete command. */
  readonly executes?: string | undefined;
  /** Value of `-task_params`. */
  readonly taskParams?: string | undefined;
  /** Value of `-python_binary_path`. */
  readonly python?: string | undefined;
  /** Value of `-python_venv`. */
  readonly pythonVenv?: string | undefined;
  /** Value of `-src_dir`. */
  readonly sourceFolder?: string | undefined;
  /** Value of `-sidecar_tensorboard_log_dir`. */
  readonly tensorboardLogDir?: string | undefined;
  /** Values of `-container_env`, each in the form `NAME=value`. */
  readonly containerEnv?: readonly string[];
  /** Values of `-shell_env`, each in the form `NAME=value`. */
  readonly shellEnv?: readonly string[];
  /** File to which the caller writes the result. Relative paths in job.yaml, and positions of mistakes, refer to this file. */
  readonly to?: string | undefined;
  /** Values of `-conf`, each in the form `key=value`. They override the configuration file. */
  readonly settings?: readonly string[];
}

export const TONY_ARGUMENTS: OptionNames<TonyArguments> = {
  executes: true,
  taskParams: true,
  python: true,
  pythonVenv: true,
  sourceFolder: true,
  tensorboardLogDir: true,
  containerEnv: true,
  shellEnv: true,
  to: true,
  settings: true,
};

/** @param fromMaster whether TonY runs the command in its ApplicationMaster */
export function commandOf(
  settings: ReadonlyMap<string, string>,
  { executes, taskParams, python, pythonVenv }: TonyArguments,
  fromMaster: boolean,
): string | undefined {
  const ofMaster = fromMaster ? settings.get('tony.am.command') : undefined;
  if (ofMaster !== undefined || executes === undefined) {
    return ofMaster ?? settings.get('tony.containers.command');
  }
  // In TonY, a relative path starts from the unpacked archive. In tony-ts, the archive's programs are on the PATH.
  const interpreter = python === undefined || pythonVenv === undefined || isAbsolute(python) ? python : basename(python);
  return [interpreter, executes, taskParams].filter((part) => part !== undefined).join(' ');
}

/** @throws TonyError USAGE if a value of the option is not an assignment */
export function givenAssignments(option: string, values: readonly string[] = [], example: string): [string, string][] {
  return values.map((value) => {
    const equals = value.indexOf('=');
    if (equals < 1) {
      throw new TonyError('USAGE', `${option} ${value} is not an assignment.`, {
        hint: `Write KEY=VALUE, for example ${option} ${example}.`,
      });
    }
    return [value.slice(0, equals), value.slice(equals + 1)];
  });
}

export interface TonyEnvironment {
  readonly env: Readonly<Record<string, string>>;
  /** Sentences about entries that job.yaml does not contain as they are written, by key. */
  readonly remarks: ReadonlyMap<string, string>;
}

export function environmentOf(settings: ReadonlyMap<string, string>, { containerEnv, shellEnv }: TonyArguments): TonyEnvironment {
  const remarks = new Map<string, string>();
  const listed = (key: string): Readonly<Record<string, string>> => {
    const { variables, empty, refused } = listedVariables(settings.get(key));
    const sentences = [
      empty.length === 0 ? '' : `TonY splits the list at each comma, so these variables are empty: ${empty.join(', ')}`,
      refused.length === 0 ? '' : `job.yaml does not accept the names of these variables: ${refused.join(', ')}`,
    ];
    remarks.set(key, sentences.filter((sentence) => sentence !== '').join('; '));
    return variables;
  };
  const env = {
    ...listed('tony.containers.envs'),
    ...Object.fromEntries(givenAssignments('--container-env', containerEnv, 'EPOCHS=3')),
    ...listed('tony.execution.envs'),
    ...Object.fromEntries(givenAssignments('--shell-env', shellEnv, 'EPOCHS=3')),
  };
  return { env, remarks };
}
