import { Document } from 'yaml';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import { DEFAULT_FRAMEWORK, frameworkOf } from '../../conf/frameworks.ts';
import { isTextKey } from '../../conf/job-values.ts';
import { mergeEveryRole } from '../../conf/resolve/every-role.ts';
import { parseYaml } from '../../conf/yaml-document.ts';
import { TonyError } from '../../platform/errors.ts';

/** Role name for a notebook's only task. */
export const NOTEBOOK_ROLE = 'notebook';
/** Settings that the notebook takes from the chosen role. */
const KEPT = ['resources', 'files', 'archives', 'env', 'nodeLabel', 'docker'] as const;
/** Settings that do not apply to a job with a single task. */
const DROPPED = ['command', 'chief', 'successPolicy', 'restart', 'gang', 'strategy', 'tensorboard', 'processesPerTask'] as const;
const DEFAULT_RESOURCES = { memory: '4g', vcores: 2 };

export interface NotebookOptions {
  /** Role from which the notebook takes its resources and environment. Default: the first role. */
  readonly role?: string | undefined;
  /** Time (ms) after which an idle notebook ends. */
  readonly idleMs: number;
  /** The job's source folder, or null if the job does not have one. */
  readonly source: { readonly path: string; readonly exclude: readonly string[] } | null;
}

/**
 * Returns a job file (as text) for a job that runs only JupyterLab.
 * @param text a valid job file from which the notebook takes its environment, or null for a notebook without a job file
 * @throws TonyError USAGE if the role does not exist
 */
export function notebookJobText(text: string | null, { role, idleMs, source }: NotebookOptions): string {
  const document: Document = text === null ? new Document({ name: 'notebook' }) : parseYaml(text, { isText: isTextKey }).document;
  mergeEveryRole(document);
  const written = document.toJS() as JobText;
  const roles = written.roles ?? {};
  const chosen = role ?? Object.keys(roles)[0];
  if (chosen !== undefined && !Object.hasOwn(roles, chosen)) {
    throw new TonyError('USAGE', `The job has no role ${chosen}.`, { hint: `Its roles are ${Object.keys(roles).join(', ')}.` });
  }
  const settings = chosen === undefined ? { resources: DEFAULT_RESOURCES } : (roles[chosen] ?? {});
  const kept = Object.fromEntries(KEPT.filter((key) => settings[key] !== undefined).map((key) => [key, settings[key]]));
  for (const key of DROPPED) {
    document.delete(key);
  }
  if (text !== null) {
    document.set('name', `${written.name} ${NOTEBOOK_ROLE}`);
  }
  if (frameworkOf(written.framework ?? DEFAULT_FRAMEWORK).trainingLibrary === 'always') {
    document.set('framework', 'none');
  }
  document.set('source', source ?? null);
  const command = `exec python3 -m tony._notebook ${Math.ceil(idleMs / 1000)}`;
  document.set('roles', document.createNode({ [NOTEBOOK_ROLE]: { ...kept, command, restart: { policy: 'never' } } }));
  return document.toString();
}

interface JobText {
  readonly name?: string;
  readonly framework?: FrameworkName;
  readonly roles?: Readonly<Record<string, Readonly<Record<string, unknown>> | null>>;
}
