import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { keytabOf } from '../cluster/kerberos.mjs';
import { useOwnCluster } from '../harness.ts';
import { sparkSubmit } from '../spark-submit.ts';

/** Spark programs that train on a DataFrame, on a cluster with Kerberos. */

const cluster = useOwnCluster('kerberos');

function client(): Record<string, string> {
  const environment = cluster.environment('alice');
  return { ...environment, SPARK_SUBMIT_OPTS: `-Djava.security.krb5.conf=${environment.KRB5_CONFIG}` };
}

describe('on a cluster with Kerberos', () => {
  test("a driver in client mode uses the user's ticket", async () => {
    await sparkSubmit({ mode: 'client', client: client() });
  });

  test('a driver in cluster mode uses a keytab that spark-submit ships', async () => {
    const keytab = keytabOf(cluster.state, 'alice');
    const driver = { TONY_PRINCIPAL: 'alice', TONY_KEYTAB: path.basename(keytab), KRB5_CONFIG: client().KRB5_CONFIG ?? '' };
    const output = await sparkSubmit({ mode: 'cluster', client: client(), driver, words: ['--files', keytab] });
    expect(output).toContain('final status: SUCCEEDED');
  });

  test('without a keytab, a driver in cluster mode fails with an error that names the missing token and TONY_KEYTAB', async () => {
    const submission = { mode: 'cluster', client: client(), driver: { KRB5_CONFIG: client().KRB5_CONFIG ?? '' } } as const;
    await expect(sparkSubmit(submission)).rejects.toThrow(/no delegation token for the ResourceManager.*TONY_KEYTAB/);
  });
});
