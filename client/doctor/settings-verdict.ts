import { doubtful, good, type Verdict } from './diagnosis.ts';

const ATTEMPTS = 'yarn.resourcemanager.am.max-attempts';
const AGGREGATION = 'yarn.log-aggregation-enable';
const ACLS = 'yarn.acl.enable';

/** Checks the ResourceManager's settings for recovery, log aggregation, and the permission to kill jobs. */
export function settingsVerdict(settings: ReadonlyMap<string, string>): Verdict {
  const attempts = Number(settings.get(ATTEMPTS) ?? 2);
  const collects = settings.get(AGGREGATION) === 'true';
  const hasAcls = settings.get(ACLS) === 'true';
  const text = [
    `an ApplicationMaster has ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
    `logs are ${collects ? '' : 'not '}aggregated on HDFS`,
    `access lists are ${hasAcls ? 'enforced' : 'off'}`,
  ].join('; ');
  const remedies = [
    ...(attempts > 1 ? [] : [`Set ${ATTEMPTS} to 2 or more: currently, a job fails when its ApplicationMaster's node fails.`]),
    ...(collects ? [] : [`Set ${AGGREGATION} to true: currently, logs of ended jobs stay on the nodes, where YARN removes them.`]),
    ...(hasAcls ? [] : [`Set ${ACLS} to true: currently, every user can kill all other users' jobs and read their logs.`]),
  ];
  return remedies.length === 0 ? good(text) : doubtful(text, remedies.join(' '));
}
