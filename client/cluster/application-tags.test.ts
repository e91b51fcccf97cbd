import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { applicationTags, refuseTooManyTags } from './application-tags.ts';

const job = (tags: readonly string[], roles = '{worker: {}}') =>
  parseJob(`name: j\ncommand: c\ntags: ${JSON.stringify(tags)}\nroles: ${roles}`, { file: 'job.yaml', folder: '/' });
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `t${index}`);
const refused = (tags: readonly string[], { roles, limits = {} }: { roles?: string; limits?: Record<string, string> } = {}) => {
  try {
    refuseTooManyTags(job(tags, roles), HadoopConfiguration.fromProperties(limits));
    return null;
  } catch (error) {
    return error;
  }
};

test('an application has the tag tony-ts, the tags of its roles and the tags of the job, without duplicates', () => {
  expect(applicationTags(job(['team-a', 'tony-ts']))).toEqual(['tony-ts', 'tony-roles:*:0:m1024:v1+worker:1:m2048:v1', 'team-a']);
});

test("accepts tags within YARN's default limit of 10, or within the limit that the cluster sets", () => {
  expect(refused(numbered(8))).toBeNull();
  expect(refused(numbered(20), { limits: { 'yarn.resourcemanager.application.max-tags': '30' } })).toBeNull();
});

test('rejects a job with too many tags, with a hint that states how many the job may list', () => {
  expect(refused(numbered(9))).toMatchObject({
    code: 'JOB_INVALID',
    message:
      'The application would have 11 tags: 9 from job.yaml, and 2 that tony-ts adds. The limit yarn.resourcemanager.application.max-tags is 10.',
    hint: 'List at most 8 under `tags` in job.yaml. If the ResourceManager has another limit, set the same limit in the yarn-site.xml of HADOOP_CONF_DIR.',
  });
  const roles = `{${numbered(16).map((name) => `${name}-with-a-rather-long-name: {}`)}}`;
  expect(applicationTags(job([], roles))).toHaveLength(9);
  expect(refused(numbered(8), { roles })).toMatchObject({ hint: expect.stringContaining('List one under `tags`') });
});

test('rejects a job with a tag above the length limit, and states where the tag comes from', () => {
  const limits = { 'yarn.resourcemanager.application.max-tag.length': '30' };
  expect(refused(['x'.repeat(31)], { limits: { ...limits, 'yarn.resourcemanager.application.max-tag.length': '60' } })).toBeNull();
  expect(refused([], { limits })).toMatchObject({
    message: expect.stringMatching(/^The tag that records what the job requests, tony-roles:/),
  });
  expect(refused(['x'.repeat(70)], { limits: { 'yarn.resourcemanager.application.max-tag.length': '60' } })).toMatchObject({
    message: expect.stringMatching(/^Tag x{70} has 70 characters; the limit yarn\.resourcemanager\.application\.max-tag\.length is 60\.$/),
    hint: expect.stringContaining('under `tags`'),
  });
});

test.each(['gr\u00fcn', 'a,b', 'tab\there', 'x'.repeat(101)])('job.yaml rejects the tag %j', (tag) => {
  expect(() => job([tag])).toThrow('tags.0');
});
