import { splitList } from './draft-files.ts';
import type { Carrying } from './tony-keys.ts';
import { isTrue, number } from './tony-values.ts';

type Settings = ReadonlyMap<string, string>;

/** Role keys in job.yaml that replace TonY's stages and group dependencies. */
export interface DraftOrder {
  readonly after: { readonly role: string } | readonly { readonly role: string }[] | undefined;
  readonly endAfter:
    | { readonly role: string | readonly string[]; readonly timeout?: string; readonly late?: 'fail' | undefined }
    | undefined;
}

export interface Stages {
  readonly prepare: readonly string[];
  readonly training: readonly string[];
}

const DEPENDENCY = /^tony\.application\.dependency\.([A-Za-z]+)\.timeout\.after\.([A-Za-z]+)(\.ignored)?$/;
const GROUP = 'tony.application.group.';

/** Returns the roles of TonY's two stages. If the configuration sets only one stage, TonY puts all other roles into the other stage. */
export function stagesOf(settings: Settings, roles: readonly string[]): Stages {
  const named = (key: string) => splitList(settings.get(`tony.application.${key}-stage`) ?? '').filter((role) => roles.includes(role));
  const prepare = named('prepare');
  const training = named('training');
  const without = (stage: readonly string[]) => roles.filter((role) => !stage.includes(role));
  if (prepare.length === 0 && training.length === 0) {
    return { prepare: [], training: [] };
  }
  return { prepare: prepare.length === 0 ? without(training) : prepare, training: training.length === 0 ? without(prepare) : training };
}

/** @param isAwaited returns true if TonY starts the second stage only after the role has ended */
export function draftOrder(
  settings: Settings,
  name: string,
  {
    roles,
    stages,
    isAwaited,
  }: { readonly roles: readonly string[]; readonly stages: Stages; readonly isAwaited: (role: string) => boolean },
): DraftOrder {
  const awaited = stages.training.includes(name) ? stages.prepare.filter(isAwaited).map((role) => ({ role })) : [];
  return { after: awaited.length > 1 ? awaited : awaited[0], endAfter: draftEnd(settings, name, roles) };
}

function draftEnd(settings: Settings, name: string, roles: readonly string[]): DraftOrder['endAfter'] {
  const group = groupOf(settings, name);
  const seconds = number(settings.get(`tony.application.dependency.${name}.timeout.after.${group}`));
  const members = splitList(settings.get(`${GROUP}${group}`) ?? '').filter((role) => roles.includes(role) && role !== name);
  const [only] = members;
  if (only === undefined || seconds === undefined) {
    return undefined;
  }
  const ignored = isTrue(settings.get(`tony.application.dependency.${name}.timeout.after.${group}.ignored`));
  return { role: members.length === 1 ? only : members, timeout: `${seconds}s`, late: ignored ? undefined : 'fail' };
}

/** Returns the role group that must end before TonY ends this role. TonY considers only one such group for each role. */
function groupOf(settings: Settings, name: string): string | undefined {
  return [...settings.keys()]
    .flatMap((key) => {
      const [, role, group, ignored] = DEPENDENCY.exec(key) ?? [];
      return role === name && group !== undefined && ignored === undefined ? [group] : [];
    })
    .at(-1);
}

/** Returns how a key that defines a group or dependency is converted. Returns undefined for other keys. */
export function carriedOrder(key: string, settings: Settings, roles: Readonly<Record<string, DraftOrder>>): Carrying | undefined {
  const ends = Object.keys(roles).filter((role) => roles[role]?.endAfter !== undefined);
  if (key.startsWith(GROUP)) {
    const users = ends.filter((role) => `${GROUP}${groupOf(settings, role)}` === key);
    return users.length === 0
      ? { to: null, remark: 'no dependency uses this group' }
      : { to: users.map((role) => `roles.${role}.endAfter.role`).join(', '), remark: '' };
  }
  const [, role, group, ignored] = DEPENDENCY.exec(key) ?? [];
  if (role === undefined) {
    return undefined;
  }
  if (!ends.includes(role) || group !== groupOf(settings, role)) {
    return { to: null, remark: 'the role, the time or the roles of the group are missing, or a later key replaces this one' };
  }
  return ignored === undefined
    ? { to: `roles.${role}.endAfter.timeout`, remark: 'the time is in seconds' }
    : { to: `roles.${role}.endAfter.late`, remark: 'with `true`, tony-ts stops the tasks, whereas TonY only stops waiting for them' };
}
