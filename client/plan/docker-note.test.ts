import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { dockerNotes } from './docker-note.ts';

const job = (docker: string) =>
  parseJob(`{name: j, command: c, roles: {worker: {docker: ${docker}}, evaluator: {}}, master: {docker: ${docker}}}`, {
    file: 'job.yaml',
    folder: '/',
  });
const cluster = (runtimes: string) => HadoopConfiguration.fromProperties({ 'yarn.nodemanager.runtime.linux.allowed-runtimes': runtimes });

test('a note names the containers whose image this machine or the cluster ignores', () => {
  const images = job('{image: a}');
  expect(dockerNotes(images, null)).toEqual([
    'the ApplicationMaster, worker set docker; a local job runs directly on this machine instead.',
  ]);
  expect(dockerNotes(images, cluster('default'))).toEqual([
    'the ApplicationMaster, worker set docker, but yarn.nodemanager.runtime.linux.allowed-runtimes in yarn-site.xml does not list docker: nodes with this setting ignore the image.',
  ]);
});

test('there is no note for a cluster that allows Docker, or for a job without images', () => {
  expect(dockerNotes(job('{image: a}'), cluster('default, docker'))).toEqual([]);
  expect(dockerNotes(job('none'), cluster('default'))).toEqual([]);
});
