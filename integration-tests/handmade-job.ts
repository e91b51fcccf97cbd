import { createJobSecrets } from '../client/job/job-secrets.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import { roleTags } from '../conf/role-tags.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { loginOf } from '../hadoop/configuration/login/login-of.ts';
import type { Login } from '../hadoop/security/login.ts';
import { launchCommand } from '../hadoop/yarn/launch-script.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
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
  readonly #user: string;
  readonly #honest: string;
  readonly #hadoop: HadoopConfiguration;
  readonly #login: Login;

  private constructor(user: string, honest: string, hadoop: HadoopConfiguration, login: Login) {
    this.#user = user;
    this.#honest = honest;
    this.#hadoop = hadoop;
    this.#login = login;
  }

  /** @param id application ID of the user's earlier job, which was submitted with the client and has ended */
  static async like(id: string, user: string, cluster: TestCluster): Promise<HandmadeJobs> {
    const text = await cluster.hdfsRead(`/user/${user}/.tony-ts/history/${id}/job.json`);
    const environment = { ...process.env, ...cluster.environment(user) };
    const hadoop = await HadoopConfiguration.fromEnvironment(environment);
    return new HandmadeJobs(user, text.toString(), hadoop, loginOf(hadoop, user, environment));
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
    const applicationId = given ?? (await this.takeId());
    const honest = JSON.parse(this.#honest) as FrozenJob;
    const frozen = job(JSON.parse(this.#honest.replaceAll(honest.jobId, applicationId)) as FrozenJob);
    const storage = createStorage({ hadoop: this.#hadoop, user: this.#user });
    const text = JSON.stringify(frozen);
    const uri = `${frozen.staging}/job.json`;
    try {
      await storage.write(uri, Buffer.from(JSON.stringify(replaced(frozen))));
      const { size = 0, modifiedAt = 0 } = (await storage.stat(uri)) ?? {};
      const tokens = await this.#login.jobTokens([this.#hadoop.defaultFs]);
      await this.#withResourceManager((resourceManager) =>
        resourceManager.submit({
          applicationId,
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
          tokens,
          keepTokens: this.#login.keepsTokens,
          command: launchCommand(['node', 'tony/application-master.mjs'], { stdout: 'tony.log', stderr: 'stderr' }),
          environment,
          resources: [{ name: 'job.json', uri, type: 'file', visibility: 'application', size, timestamp: modifiedAt }, ...honest.resources],
          secrets: new Map([...createJobSecrets(Date.now(), text)].map(([name, secret]) => [name, secret.reveal()])),
          acls: null,
        }),
      );
      return applicationId;
    } finally {
      storage.close();
    }
  }

  /** Requests a new application ID. The ID does not expire, and no quota limits the number of IDs. */
  async takeId(): Promise<string> {
    return this.#withResourceManager(async (resourceManager) => (await resourceManager.newApplication()).applicationId);
  }

  async #withResourceManager<T>(use: (resourceManager: ResourceManager) => Promise<T>): Promise<T> {
    const resourceManager = ResourceManager.of(this.#hadoop, this.#user);
    try {
      return await use(resourceManager);
    } finally {
      resourceManager.close();
    }
  }
}
