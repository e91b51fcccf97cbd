import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { keytabOf } from '../cluster/kerberos.mjs';
import type { Command, CommandResult } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder, until, useOwnCluster } from '../harness.ts';

/**
 * The client on a cluster with Kerberos: with only a file of delegation tokens, and with a ticket, a clock, a realm or a host name that the
 * cluster rejects. Needs Debian's `faketime`.
 */

const FAKE_CLOCK = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';
// Cookies are valid for less than a minute, so clients need a valid ticket for each request.
const cluster = useOwnCluster('kerberos', { core: { 'hadoop.http.authentication.token.validity': 30 } });

/** A client without a ticket, except for what `env` names. */
class Client {
  readonly #env: Readonly<Record<string, string>>;
  readonly #folder: string;

  constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.#folder = folder;
    this.#env = { KRB5CCNAME: `FILE:${path.join(folder, 'none')}`, XDG_CACHE_HOME: path.join(folder, 'cache'), ...env };
  }

  run(...words: readonly string[]): Promise<CommandResult> {
    return cluster.run(words, { env: { ...cluster.environment('alice'), ...this.#env } });
  }

  async submit(command: string): Promise<{ readonly id: string; readonly stderr: string }> {
    const { stdout, stderr } = await this.run('submit', '--conf', await this.#jobFile(command), '--detach');
    return { id: /application_\d+_\d+/.exec(stdout)?.[0] ?? '', stderr };
  }

  /** Starts `submit` without --detach. */
  async follow(command: string): Promise<Command> {
    const words = ['submit', '--conf', await this.#jobFile(command)];
    return cluster.startCommand(words, { env: { ...cluster.environment('alice'), ...this.#env } });
  }

  async #jobFile(command: string): Promise<string> {
    const file = path.join(this.#folder, 'job.yaml');
    const roles = 'roles: {worker: {instances: 1, resources: {memory: 256m}}}';
    await writeFile(file, `name: shell\nframework: none\nruntime: system\ncommand: '${command}'\n${roles}\n`);
    return file;
  }

  async findings(): Promise<Record<string, unknown>[]> {
    return jsonLines((await this.run('doctor', '--output', 'json')).stdout);
  }

  /** Waits until `tony-ts status` prints the state. */
  async reaches(id: string, state: string): Promise<void> {
    const status = () => this.run('status', id);
    await until(async () => (await status()).stdout.includes(state), { describe: status });
  }
}

describe('with only a file of delegation tokens', () => {
  /** Runs one of Hadoop's own programs as a user. */
  async function hadoop(user: string, main: string, ...words: string[]): Promise<void> {
    const [java = '', ...args] = await cluster.clientProgram(main);
    await execute(java, [...args, ...words], { env: { ...process.env, ...cluster.environment(user) } });
  }

  /** Writes tokens for HDFS and the ResourceManager with Hadoop's tools. */
  async function writeTokens(user: string, renewer: string, service = 'rm1,rm2'): Promise<string> {
    const file = path.join(await temporaryFolder(), 'tokens');
    await hadoop(user, 'org.apache.hadoop.hdfs.tools.DelegationTokenFetcher', '--renewer', renewer, file);
    // Hadoop offers tokens for the ResourceManager only through its REST API.
    const request = ['-s', '--negotiate', '-u', ':', '-H', 'Content-Type: application/json', '-d', JSON.stringify({ renewer })];
    const { stdout } = await execute('curl', [...request, `${cluster.resourceManager}/ws/v1/cluster/delegation-token`], {
      env: { ...process.env, ...cluster.environment(user) },
    });
    const { token } = JSON.parse(stdout) as { token: string };
    // The alias also becomes the token's service. The ResourceManager renews only tokens whose service is its address.
    await hadoop(user, 'org.apache.hadoop.security.token.DtUtilShell', 'import', token, '-alias', service, file);
    return file;
  }

  test('all commands work, and the tokens stay valid after a job has ended', async () => {
    // A secure NodeManager aggregates a log only if it belongs to the job's user. Here, that is the administrator.
    const file = await writeTokens(cluster.administrator, 'yarn');
    const client = new Client(await temporaryFolder(), { HADOOP_TOKEN_FILE_LOCATION: file });
    const findings = await client.findings();
    expect(findings.find(({ name }) => name === 'login')?.message).toMatch(
      /by the delegation tokens of HADOOP_TOKEN_FILE_LOCATION, until /,
    );
    expect(findings.filter(({ state }) => state !== 'ok')).toEqual([
      expect.objectContaining({
        name: 'node settings',
        message: expect.stringContaining('/conf returned HTTP 401, so it requires a Kerberos ticket.'),
      }),
    ]);

    const first = await client.submit('echo out of worker');
    await client.reaches(first.id, 'succeeded');
    const endedAt = Date.now();
    const logs = () => client.run('logs', first.id, 'worker:0');
    await until(async () => (await logs()).stdout.includes('out of worker'), { describe: logs });

    // The ResourceManager removes a job's tokens 30 s after its end.
    await until(() => Date.now() - endedAt > 45_000, { describe: 'the tokens of the first job are removed' });
    const second = await client.submit('exec sleep 600');
    expect(second.stderr).not.toContain('error');
    await client.reaches(second.id, 'running');
    expect((await client.run('list')).stdout).toContain(second.id);
    expect(await client.run('exec', second.id, 'worker:0', '--', 'sh', '-c', 'echo $TONY_ROLE')).toMatchObject({ stdout: 'worker\n' });
    expect((await client.run('logs', second.id)).stderr).toMatch(
      /^error: The NodeManager \S+ shows logs only to users with a Kerberos ticket\.\nhint: Run `tony-ts logs/,
    );
    expect(await client.run('kill', second.id)).toMatchObject({ exitCode: 0 });
    await client.reaches(second.id, 'killed');
  });

  test('submit follows a job to its end and shows its output, and after an interrupt, the job can be killed', async () => {
    const file = await writeTokens(cluster.administrator, 'yarn');
    const client = new Client(await temporaryFolder(), { HADOOP_TOKEN_FILE_LOCATION: file });
    const ended = await (await client.follow('echo out of worker')).result;
    expect(ended.exitCode, ended.stderr).toBe(0);
    expect(ended.stdout).toMatch(/^worker:0 \| out of worker\n(.*\n)*application_\d+_\d+ succeeded$/m);

    const endless = await client.follow('exec sleep 600');
    const [id] = await endless.output(/application_\d+_\d+/);
    await client.reaches(id, 'running');
    endless.signal('SIGINT');
    // Without a terminal, the user cannot answer whether to kill the job.
    expect(await endless.result).toMatchObject({ exitCode: 130, stdout: expect.stringContaining('detached; the job continues.') });
    expect(await client.run('kill', id)).toMatchObject({ exitCode: 0 });
    await client.reaches(id, 'killed');
  });

  test('a renewer other than the ResourceManager, and a cancelled token, are reported with the next step', async () => {
    const file = await writeTokens('alice', 'bob', `127.0.0.1:${cluster.ports.resourcemanager.client}`);
    const client = new Client(await temporaryFolder(), { HADOOP_TOKEN_FILE_LOCATION: file });
    const { id } = await client.submit('exec sleep 600');
    await client.reaches(id, 'failed');
    expect((await client.run('status', id)).stdout).toMatch(
      /The ResourceManager cannot renew the token \w+ for 127\.0\.0\.1:\d+, which names bob as its renewer\. .* hdfs fetchdt --renewer yarn FILE\./,
    );
    await hadoop('alice', 'org.apache.hadoop.hdfs.tools.DelegationTokenFetcher', '--cancel', file);
    expect((await client.submit('true')).stderr).toMatch(/^error: .*\nhint: .* unset HADOOP_TOKEN_FILE_LOCATION to use your ticket\./);
    expect(await client.findings()).toContainEqual(
      expect.objectContaining({ name: 'NameNode', state: 'error', hint: expect.stringContaining('unset HADOOP_TOKEN_FILE_LOCATION') }),
    );
  });
});

test('a command that follows a job waits for a new ticket when its ticket has expired', async () => {
  const folder = await temporaryFolder();
  const [cache, end] = [`FILE:${path.join(folder, 'short')}`, path.join(folder, 'end')];
  const kinit = async (lifetime: string): Promise<void> => {
    const words = ['-k', '-t', keytabOf(cluster.state, 'alice'), '-l', lifetime, '-c', cache, 'alice'];
    await execute('kinit', words, { env: { ...process.env, ...cluster.environment('alice') } });
  };
  await kinit('60s');
  const command = await new Client(folder, { KRB5CCNAME: cache }).follow(`while [ ! -e ${end} ]; do sleep 0.2; done`);
  await command.output(/The Kerberos ticket of alice@\S+ expired at \S+ The job continues to run\. .* run kinit/);
  await kinit('1h');
  await command.output(/The new Kerberos ticket is valid\./);
  await writeFile(end, '');
  expect(await command.result).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('succeeded') });
});

describe('a rejected login is reported with its cause and the next step', () => {
  /** Expects the message from `list` and `submit`, and in the first error of `doctor`. */
  async function expectRejection(env: Readonly<Record<string, string>>, message: RegExp, hint: string, check: string): Promise<void> {
    const client = new Client(await temporaryFolder(), env);
    const [listed, submitted, findings] = await Promise.all([client.run('list'), client.submit('true'), client.findings()]);
    for (const stderr of [listed.stderr, submitted.stderr]) {
      expect(stderr).toMatch(new RegExp(`^error: ${message.source}\nhint: `));
      expect(stderr).toContain(hint);
    }
    expect(submitted.id).toBe('');
    const [found] = findings.filter(({ state }) => state === 'error');
    expect(found).toMatchObject({ name: check, message: expect.stringMatching(message), hint: expect.stringContaining(hint) });
  }

  const ticket = (): Record<string, string> => ({ KRB5CCNAME: cluster.environment('alice').KRB5CCNAME ?? '' });

  test('no ticket', async () => {
    await expectRejection({}, /No Kerberos ticket was found: No credentials cache found .*\./, 'Run kinit, or', 'configuration');
  });

  test('an expired ticket', async () => {
    const cache = `FILE:${path.join(await temporaryFolder(), 'short')}`;
    const kinit = ['-k', '-t', keytabOf(cluster.state, 'alice'), '-l', '2s', '-c', cache, 'alice'];
    await execute('kinit', kinit, { env: { ...process.env, ...cluster.environment('alice') } });
    const isValid = async () => (await execute('klist', ['-s', '-c', cache]).catch(() => null)) !== null;
    await until(async () => !(await isValid()), { describe: 'the ticket has expired' });
    const message = /The Kerberos ticket of alice@EXAMPLE\.TEST expired at \S+Z\./;
    await expectRejection({ KRB5CCNAME: cache }, message, 'Run kinit again.', 'configuration');
  });

  test.skipIf(!existsSync(FAKE_CLOCK)).each([
    ['+20m', /Kerberos rejected the identity of this user at localhost:\d+: .*Clock skew too great.*\./],
    ['-20m', /Kerberos rejected the identity of this user at localhost:\d+: Ticket not yet valid\./],
  ])('a clock that differs by %s', async (difference, message) => {
    const env = { LD_PRELOAD: FAKE_CLOCK, FAKETIME: difference, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
    await expectRejection({ ...ticket(), ...env }, message, 'Run a time service', 'ResourceManager');
  });

  test('a realm that the key distribution center does not know', async () => {
    const file = path.join(await temporaryFolder(), 'krb5.conf');
    const text = await readFile(cluster.environment('alice').KRB5_CONFIG ?? '', 'utf8');
    await writeFile(file, text.replace('localhost = EXAMPLE.TEST', 'localhost = OTHER.TEST'));
    const message = /Kerberos rejected .*: Server krbtgt\/OTHER\.TEST@EXAMPLE\.TEST not found in Kerberos database\./;
    await expectRejection({ ...ticket(), KRB5_CONFIG: file }, message, '[domain_realm] in krb5.conf', 'ResourceManager');
  });

  test('a principal of another realm', async () => {
    const env = { TONY_PRINCIPAL: 'alice@OTHER.TEST', TONY_KEYTAB: keytabOf(cluster.state, 'alice') };
    const message = /Kerberos rejected alice@OTHER\.TEST with the keytab \S+: .*Keytab contains no suitable keys.*\./;
    await expectRejection(env, message, 'Check the keytab and its principal', 'configuration');
  });

  test('a host name without a principal', async () => {
    const folder = path.join(await temporaryFolder(), 'conf');
    await cp(cluster.configuration, folder, { recursive: true });
    for (const name of ['core-site.xml', 'hdfs-site.xml', 'yarn-site.xml']) {
      const text = await readFile(path.join(folder, name), 'utf8');
      await writeFile(path.join(folder, name), text.replaceAll('localhost:', '127.0.0.1:'));
    }
    const message = /Kerberos rejected .* at 127\.0\.0\.1:\d+: Server HTTP\/127\.0\.0\.1@EXAMPLE\.TEST not found in Kerberos database\./;
    await expectRejection({ ...ticket(), HADOOP_CONF_DIR: folder }, message, 'use the host names', 'ResourceManager');
  });
});
