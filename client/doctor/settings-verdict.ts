import { counted } from '../../conf/values/quantities.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { MASTER_ATTEMPTS } from '../job/master-attempts.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

const ATTEMPTS = 'yarn.resourcemanager.am.max-attempts';
const AGGREGATION = 'yarn.log-aggregation-enable';
const RETENTION = 'yarn.log-aggregation.retain-seconds';
const ACLS = 'yarn.acl.enable';
const ADMINS = 'yarn.admin.acl';
const PROXY = 'yarn.web-proxy.address';
const PAGES_POLICY = 'yarn.resourcemanager.application-https.policy';
/** With a shorter retention time (ms), logs may disappear before users have read them. */
const SHORT_MS = 86_400_000;

/**
 * Checks the ResourceManager's settings for recovery, log aggregation, access lists, and job pages.
 * @param address base URL of the ResourceManager
 */
export function settingsVerdict(settings: ReadonlyMap<string, string>, address: string): CheckResult {
  const pages = pagesVerdict(settings, address);
  const verdicts = [...[attemptsVerdict, logsVerdict, aclVerdict].map((verdict) => verdict(settings)), ...(pages === null ? [] : [pages])];
  const text = verdicts.map((each) => each.text).join('; ');
  const remedies = verdicts.flatMap(({ remedy }) => (remedy === '' ? [] : [remedy]));
  return remedies.length === 0 ? good(text) : doubtful(text, remedies.join(' '));
}

function attemptsVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  const most = Number(settings.get(ATTEMPTS) ?? 2);
  const used = Math.min(MASTER_ATTEMPTS, most);
  const text = `a job gets ${counted(used, 'ApplicationMaster attempt')} (YARN allows at most ${most})`;
  return most > 1
    ? good(text)
    : doubtful(text, `Set ${ATTEMPTS} to 2 or more: currently, a job fails when its ApplicationMaster's node fails.`);
}

function logsVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  if (settings.get(AGGREGATION) !== 'true') {
    return doubtful(
      'logs are not aggregated on HDFS',
      `Set ${AGGREGATION} to true: currently, logs of ended jobs stay on the nodes, where YARN removes them.`,
    );
  }
  // YARN keeps logs forever if the number of seconds is negative.
  const keptMs = 1000 * Number(settings.get(RETENTION) ?? -1);
  if (keptMs < 0) {
    return good('logs are aggregated on HDFS and never removed');
  }
  const text = `logs are aggregated on HDFS and kept for ${formatDuration(keptMs)}`;
  return keptMs < SHORT_MS
    ? doubtful(
        text,
        `Set ${RETENTION} to ${(7 * SHORT_MS) / 1000} (a week): currently, \`tony-ts logs\` finds no logs of yesterday's jobs.`,
      )
    : good(text);
}

function aclVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  if (settings.get(ACLS) !== 'true') {
    return doubtful(
      'access lists are off',
      `Set ${ACLS} to true: currently, every user can kill all other users' jobs and read their logs.`,
    );
  }
  const admins = (settings.get(ADMINS) ?? '*').trim();
  return admins === '*'
    ? doubtful(
        'access lists are enforced, but every user is an administrator',
        `Set ${ADMINS} to the administrators of YARN: currently, every user can still kill all other users' jobs and read their logs.`,
      )
    : good(`access lists are enforced; administrators: ${admins === '' ? 'none' : admins}`);
}

/** Returns null if YARN's proxy can show job pages, or a finding otherwise. */
function pagesVerdict(settings: ReadonlyMap<string, string>, address: string): CheckResult | null {
  const proxy = settings.get(PROXY) ?? '';
  return proxy === '' || settings.get(PAGES_POLICY) !== 'STRICT' || new URL(address).host === proxy
    ? null
    : doubtful(
        `the proxy ${proxy}, which runs outside the ResourceManager, cannot show the pages of jobs`,
        `Set ${PAGES_POLICY} to LENIENT, or remove ${PROXY}: only the ResourceManager's own proxy can verify the certificates that STRICT requires.`,
      );
}
