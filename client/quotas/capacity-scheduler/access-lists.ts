import { allowedQueues } from '../../../conf/quota-violations.ts';
import { leafQueues, type SchedulerDraft, type SchedulerView, staticQueues } from './scheduler-draft.ts';

const EVERYBODY = '*';
const NOBODY = ' ';
const SUBMIT = 'acl_submit_applications';
const ADMINISTER = 'acl_administer_queue';

/**
 * Adds the `queues` limits for users and groups to the queues' access lists. YARN's access lists can only grant access, and child queues
 * inherit grants from their parent queues. This function therefore also removes grants from parent queues. YARN cannot exclude individual
 * users from a queue that is open to everyone.
 */
export function limitSubmitters(draft: SchedulerDraft, { quotas, root, groupsOf, aclsEnabled }: SchedulerView): void {
  const users = Object.keys(quotas.users).filter((user) => user !== EVERYBODY);
  const groups = Object.keys(quotas.groups).filter((group) => quotas.groups[group]?.queues !== undefined);
  if (groups.length === 0 && Object.values(quotas.users).every(({ queues }) => queues === undefined)) {
    return;
  }
  if (aclsEnabled === false) {
    draft.notice('The ResourceManager does not enforce access lists yet: set yarn.acl.enable to true in yarn-site.xml.');
  }
  const others = quotas.users[EVERYBODY]?.queues;
  const leaves = leafQueues(root);
  for (const queue of staticQueues(root)) {
    const isLeaf = leaves.includes(queue);
    // Administrators of a queue may also submit to it. By default, everyone is an administrator of the root queue.
    const usual = queue === root ? EVERYBODY : NOBODY;
    if ((draft.get(`${queue.path}.${ADMINISTER}`) ?? usual).trim() === EVERYBODY) {
      draft.set(`${queue.path}.${ADMINISTER}`, NOBODY, 'administrators of a queue may also submit to it');
      draft.notice(
        `Everyone can currently administer ${queue.path} and therefore submit to it. With this file, only YARN's administrators (yarn.admin.acl) can administer it.`,
      );
    }
    // Dynamic queues inherit the access list of their parent queue.
    if (queue.makesQueues) {
      draft.set(`${queue.path}.${SUBMIT}`, EVERYBODY, 'YARN creates the queues below it on first use');
    } else if (!isLeaf && (draft.get(`${queue.path}.${SUBMIT}`) ?? usual).trim() !== '') {
      draft.set(`${queue.path}.${SUBMIT}`, NOBODY, 'a grant would also apply to the child queues');
    }
  }
  const known = new Set(leaves.map(({ name }) => name));
  const named = [...Object.values(quotas.users), ...Object.values(quotas.groups)].flatMap(({ queues = [] }) => queues);
  for (const name of new Set(named)) {
    if (!known.has(name)) {
      draft.notice(
        `The quotas for users or groups name the queue ${name}, but no queue with that name accepts applications in the cluster.`,
      );
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
          `YARN cannot exclude ${new Intl.ListFormat('en').format(kept)} from ${path}, because everyone else may use it. To exclude them, set quotas.users."*".queues to a list without ${name}.`,
        );
      }
      continue;
    }
    const usersIn = users.filter(mayUse);
    const stillIn = users.filter((user) => !mayUse(user) && groupsOf(user).some((group) => groupsIn.includes(group)));
    if (stillIn.length > 0) {
      draft.notice(
        `YARN cannot exclude ${new Intl.ListFormat('en').format(stillIn)} from ${path}, because one of their groups may use it.`,
      );
    }
    draft.set(`${path}.${SUBMIT}`, accessList(draft, usersIn, groupsIn), why);
  }
}

/**
 * Formats an access list, for example `alice,bob research`. Omits names with a comma, a space or an asterisk, because these characters have
 * a special meaning.
 */
function accessList(draft: SchedulerDraft, users: readonly string[], groups: readonly string[]): string {
  const writable = (names: readonly string[]): string =>
    names
      .filter((name) => {
        const isPlain = !/[\s,*]/.test(name);
        if (!isPlain) {
          draft.notice(`The access lists omit "${name}", because it contains a space, a comma or an asterisk.`);
        }
        return isPlain;
      })
      .join(',');
  return `${writable(users)} ${writable(groups)}`;
}
