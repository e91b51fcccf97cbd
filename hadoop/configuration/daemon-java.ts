import * as z from 'zod';
import { HttpClient } from '../http/http-client.ts';
import { type Login, sendAs } from '../security/login.ts';
import type { ServerTrust } from '../tls/server-trust.ts';

const ANSWER_MS = 5_000;
const MAXIMUM_BYTES = 1 << 20;

/*
 * All Hadoop daemons respond to GET /jmx?qry=java.lang:type=Runtime:
 *   {"beans": [{"name": "java.lang:type=Runtime", "VmName": "OpenJDK 64-Bit Server VM", "VmVersion": "11.0.22+7", ...}]}
 */
const schema = z.object({ beans: z.array(z.object({ VmName: z.string(), VmVersion: z.string() })) });

/** Returns a daemon's Java version, e.g. `OpenJDK 64-Bit Server VM 11.0.22+7`, or null if the daemon does not report its version. */
export async function javaOfDaemon(base: URL, login: Login, trust: ServerTrust): Promise<string | null> {
  const http = new HttpClient({ trust });
  try {
    const url = new URL('/jmx', base);
    url.searchParams.set('qry', 'java.lang:type=Runtime');
    const answer = await sendAs(
      login,
      url,
      (at, headers) => http.fetch({ method: 'GET', url: at, headers, idleTimeoutMs: ANSWER_MS }, { maximumBytes: MAXIMUM_BYTES }),
      ({ status }) => status,
    );
    const [bean] = schema.parse(JSON.parse(answer.body.toString('utf8'))).beans;
    return bean === undefined ? null : `${bean.VmName} ${bean.VmVersion}`;
  } catch {
    return null;
  } finally {
    http.close();
  }
}
