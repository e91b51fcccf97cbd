import type { Job } from '../../conf/job.ts';
import { roleTags } from '../../conf/role-tags.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { TonyError } from '../../platform/errors.ts';

const MOST = 'yarn.resourcemanager.application.max-tags';
const LONGEST = 'yarn.resourcemanager.application.max-tag.length';
const OWN_TAG = 'tony-ts';

/** Returns a job's YARN application tags: `tony-ts`, each role's demand, and the tags in job.yaml. */
export function applicationTags(job: Pick<Job, 'roles' | 'master' | 'tags'>): string[] {
  return [...new Set([OWN_TAG, ...roleTags(job), ...job.tags])];
}

/**
 * Checks the number of tags and their lengths before the upload. Without this check, the ResourceManager would reject the job only after
 * the upload.
 * @throws TonyError JOB_INVALID, HADOOP_CONF_INVALID
 */
export function refuseTooManyTags(job: Pick<Job, 'roles' | 'master' | 'tags'>, configuration: Pick<HadoopConfiguration, 'number'>): void {
  const tags = applicationTags(job);
  const most = configuration.number(MOST);
  const longest = configuration.number(LONGEST);
  const settings = 'If the ResourceManager has another limit, set the same limit in the yarn-site.xml of HADOOP_CONF_DIR.';
  const tooLong = tags.find((tag) => tag.length > longest);
  if (tooLong !== undefined) {
    const subject = job.tags.includes(tooLong) ? 'Tag' : 'The tag that records what the job requests,';
    throw new TonyError('JOB_INVALID', `${subject} ${tooLong} has ${tooLong.length} characters; the limit ${LONGEST} is ${longest}.`, {
      hint: `${job.tags.includes(tooLong) ? 'Shorten it under `tags` in job.yaml.' : 'Shorten the names of roles.'} ${settings}`,
    });
  }
  if (tags.length <= most) {
    return;
  }
  const own = tags.filter((tag) => !job.tags.includes(tag)).length;
  const left = Math.max(0, most - own);
  throw new TonyError(
    'JOB_INVALID',
    `The application would have ${tags.length} tags: ${tags.length - own} from job.yaml, and ${own} that tony-ts adds. The limit ${MOST} is ${most}.`,
    { hint: `List ${left === 0 ? 'none' : left === 1 ? 'one' : `at most ${left}`} under \`tags\` in job.yaml. ${settings}` },
  );
}
