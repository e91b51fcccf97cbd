import { allowedQueues } from '../../../conf/quota-violations.ts';
import { leafQueues, type SchedulerDraft, type SchedulerView, staticQueues } from './scheduler-draft.ts';

const EVERYBODY = '*';
const NOBODY = ' ';
const SUBMIT = 'acl_submit_applications';
const ADMINISTER = 'acl_administer_queue';

/**
 * Writes `queues` of users and groups as the access list of each queue. YARN's lists can only grant access, and a queue's grants also apply
 * to the queues below it: grants of parent queues are removed, and no list can exclude a user from a queue that is open to everybody.
 */
export function limitSubmitters(draft: SchedulerDraft, { quotas, root, groupsOf, aclsEnabled }: SchedulerView): void {
  const users = Object.keys(quotas.users).filter((user) => user !== EVERYBODY);
  const groups = Object.keys(quotas.groups).filter((group) => quotas.groups[group]?.queues !== undefined);
  if (groups.length === 0 && Object.values(quotas.users).every(({ queues }) => queues === undefined)) {
    return;
  }
  if (aclsEnabled === false) {
    draft.notice('Access lists do not hold yet: set yarn.acl.enable to true in yarn-site.xml.');
  }
  const others = quotas.users[EVERYBODY]?.queues;
  const leaves = leafQueues(root);
  for (const queue of staticQueues(root)) {
    const isLeaf = leaves.includes(queue);
    // A queue's administrators may also submit to it. By default everybody administers the root queue, and nobody the others.
    const usual = queue === root ? EVERYBODY : NOBODY;
    if ((draft.get(`${queue.path}.${ADMINISTER}`) ?? usual).trim() === EVERYBODY) {
      draft.set(`${queue.path}.${ADMINISTER}`, NOBODY, 'who may administer a queue may submit to it');
      draft.notice(
        `Everybody could administer ${queue.path}, and with that submit to it; now only YARN's administrators (yarn.admin.acl) may.`,
      );
    }
    // Dynamic queues below it have no access list of their own.
    if (queue.makesQueues) {
      draft.set(`${queue.path}.${SUBMIT}`, EVERYBODY, 'queues below it are made when they are first used');
    } else if (!isLeaf && (draft.get(`${queue.path}.${SUBMIT}`) ?? usual).trim() !== '') {
      draft.set(`${queue.path}.${SUBMIT}`, NOBODY, 'what is said here holds for every queue below');
    }
  }
  const known = new Set(leaves.map(({ name }) => name));
  const named = [...Object.values(quotas.users), ...Object.values(quotas.groups)].flatMap(({ queues = [] }) => queues);
  for (const name of new Set(named)) {
    if (!known.has(name)) {
      draft.notice(`There is no queue ${name} to submit to, which users or groups may name.`);
    }
  }
  for (const { name, path } of leaves) {
    const mayUse = (user: string): boolean => allowedQueues(quotas, { user, groups: groupsOf(user) })?.queues.includes(name) ?? true;
    const groupsIn = groups.filter((group) => quotas.groups[group]?.queues?.includes(name));
    const why = 'queues of quotas.users and quotas.groups';
    if (others === undefined || others.includes(name)) {
      draft.set(`${path}.${SUBMIT}`, EVERYBODY, why);
      const kept = [...users.filter((user) => !mayUse(user)), ...groups.filter((group) => !groupsIn.includes(group))];
      if (kept.length > 0) {
        draft.notice(
          `YARN does not keep ${kept.join(', ')} out of ${path}, since everybody else may use it: give quotas.users."*" queues without ${name}.`,
        );
      }
      continue;
    }
    const usersIn = users.filter(mayUse);
    const stillIn = users.filter((user) => !mayUse(user) && groupsOf(user).some((group) => groupsIn.includes(group)));
    if (stillIn.length > 0) {
      draft.notice(`YARN does not keep ${stillIn.join(', ')} out of ${path}: a group of theirs may use it.`);
    }
    draft.set(`${path}.${SUBMIT}`, accessList(draft, usersIn, groupsIn), why);
  }
}

/** `alice,bob research`: names with a comma or a space cannot be written, because either separates names. */
function accessList(draft: SchedulerDraft, users: readonly string[], groups: readonly string[]): string {
  const writable = (names: readonly string[]): string =>
    names
      .filter((name) => {
        const isPlain = !/[\s,*]/.test(name);
        if (!isPlain) {
          draft.notice(`"${name}" cannot stand in an access list of YARN.`);
        }
        return isPlain;
      })
      .join(',');
  return `${writable(users)} ${writable(groups)}`;
}
