import { createJobSecrets } from '../client/job/job-secrets.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import { roleTags } from '../conf/role-tags.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { submissionBody } from '../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../hadoop/yarn/launch-script.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { TestCluster } from './harness.ts';

/** Changes to a submission that a user could make without this client. */
export interface Changes {
  /** Application ID of the submission. Default: a new ID. */
  readonly id?: string;
  readonly job?: (honest: FrozenJob) => FrozenJob;
  /** Tags in place of the tags that describe the resources in job.json. */
  readonly tags?: (honest: readonly string[]) => readonly string[];
  readonly type?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Memory of the ApplicationMaster's container in MiB, regardless of job.json. */
  readonly masterMb?: number;
  /** Returns the job.json that YARN localises in place of the staged one. The rest of the submission stays unchanged. */
  readonly replaced?: (submitted: FrozenJob) => FrozenJob;
}

/** Stages and submits a job without the client. The job uses the bundles that the client staged for an earlier job. */
export class HandmadeJobs {
  readonly #cluster: TestCluster;
  readonly #user: string;
  readonly #honest: string;

  private constructor(cluster: TestCluster, user: string, honest: string) {
    this.#cluster = cluster;
    this.#user = user;
    this.#honest = honest;
  }

  /** @param id application ID of the user's earlier job, which was submitted with the client and has ended */
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
    masterMb = 1024,
    replaced = (submitted) => submitted,
  }: Changes): Promise<string> {
    const id = given ?? (await this.takeId());
    const honest = JSON.parse(this.#honest) as FrozenJob;
    const frozen = job(JSON.parse(this.#honest.replaceAll(honest.applicationId, id)) as FrozenJob);
    const hadoop = await HadoopConfiguration.fromEnvironment(this.#cluster.environment());
    const storage = createStorage({ hadoop, user: this.#user });
    const text = JSON.stringify(frozen);
    const uri = `${frozen.staging}/job.json`;
    try {
      await storage.write(uri, Buffer.from(JSON.stringify(replaced(frozen))));
      const { size = 0, modifiedAt = 0 } = (await storage.stat(uri)) ?? {};
      await this.#post('', {
        ...submissionBody({
          applicationId: id,
          name: frozen.job.name,
          type,
          queue: frozen.job.queue,
          tags: tags(['tony-ts', ...roleTags(frozen.job)]),
          memoryMb: masterMb,
          vcores: 1,
          nodeLabel: null,
          priority: 0,
          maxAttempts: 1,
          failureWindowMs: null,
          keepContainers: false,
          tokens: [],
          command: launchCommand(['node', 'tony/application-master.mjs'], { stdout: 'tony.log', stderr: 'stderr' }),
          environment,
          resources: [{ name: 'job.json', uri, type: 'file', visibility: 'application', size, timestamp: modifiedAt }, ...honest.resources],
          secrets: new Map([...createJobSecrets(Date.now(), text)].map(([name, secret]) => [name, secret.reveal()])),
          acls: null,
        }),
      });
      return id;
    } finally {
      storage.close();
    }
  }

  /** Requests a new application ID. The ID does not expire, and no quota limits the number of IDs. */
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
    if (!answer.ok) {
      throw new Error(`${path}: ${answer.status} ${text}`);
    }
    return text;
  }
}
