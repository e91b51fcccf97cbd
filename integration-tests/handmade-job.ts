import { createJobSecrets } from '../client/job-secrets.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import { roleTags } from '../conf/role-tags.ts';
import { submissionBody } from '../hadoop/application-submission.ts';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { launchCommand } from '../hadoop/launch-script.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { TestCluster } from './harness.ts';

/** What a user who does without this client changes of an honest submission. */
export interface Changes {
  /** To submit under, instead of one that has just been given out. */
  readonly id?: string;
  readonly job?: (honest: FrozenJob) => FrozenJob;
  /** Instead of those that tell what job.json asks for. */
  readonly tags?: (honest: readonly string[]) => readonly string[];
  readonly type?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Stages and submits a job by hand, with the bundles that an honest submission has staged. */
export class HandmadeJobs {
  readonly #cluster: TestCluster;
  readonly #user: string;
  readonly #honest: string;

  private constructor(cluster: TestCluster, user: string, honest: string) {
    this.#cluster = cluster;
    this.#user = user;
    this.#honest = honest;
  }

  /** @param id of the user's honest job, which is over. */
  static async like(id: string, user: string, cluster: TestCluster): Promise<HandmadeJobs> {
    const text = await cluster.hdfsRead(`/user/${user}/.tony-ts/history/${id}/job.json`);
    return new HandmadeJobs(cluster, user, text.toString());
  }

  async submit({
    id: given,
    job = (honest) => honest,
    tags = (honest) => honest,
    type = APPLICATION_TYPE,
    environment = {},
  }: Changes): Promise<string> {
    const id = given ?? (await this.takeId());
    const honest = JSON.parse(this.#honest) as FrozenJob;
    const frozen = job(JSON.parse(this.#honest.replaceAll(honest.applicationId, id)) as FrozenJob);
    const hadoop = await HadoopConfiguration.fromEnvironment(this.#cluster.environment());
    const storage = createStorage({ hadoop, user: this.#user });
    const uri = `${frozen.staging}/job.json`;
    try {
      await storage.write(uri, Buffer.from(JSON.stringify(frozen)));
      const { size = 0, modifiedAt = 0 } = (await storage.stat(uri)) ?? {};
      await this.#post('', {
        ...submissionBody({
          applicationId: id,
          name: frozen.job.name,
          type,
          queue: frozen.job.queue,
          tags: tags(['tony-ts', ...roleTags(frozen.job)]),
          memoryMb: 1024,
          vcores: 1,
          nodeLabel: null,
          maxAttempts: 1,
          keepContainers: false,
          command: launchCommand(['node', 'tony/application-master.mjs'], { stdout: 'tony.log', stderr: 'stderr' }),
          environment,
          resources: [{ name: 'job.json', uri, type: 'file', visibility: 'application', size, timestamp: modifiedAt }, ...honest.resources],
          secrets: new Map([...createJobSecrets(Date.now())].map(([name, secret]) => [name, secret.reveal()])),
          acls: null,
        }),
      });
      return id;
    } finally {
      storage.close();
    }
  }

  /** What costs nothing, and may be used at any time. */
  async takeId(): Promise<string> {
    const answer = JSON.parse(await this.#post('/new-application', undefined)) as { 'application-id': string };
    return answer['application-id'];
  }

  async #post(path: string, body: unknown): Promise<string> {
    const url = `${this.#cluster.resourceManager}/ws/v1/cluster/apps${path}?user.name=${this.#user}`;
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return text;
  }
}
