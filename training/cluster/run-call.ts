import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as z from 'zod';
import { CALL_DATA, CALL_FILE, RESULT_FILE } from '../../conf/values/run-call.ts';
import { TonyError } from '../../platform/errors.ts';
import { encodeJsonValue } from '../../platform/json-value.ts';
import { joinUri } from '../../storage/uri.ts';
import { join } from './join.ts';

/** Time in ms for which open timers and connections may keep the process from exiting. */
const LEFTOVERS_MS = 5000;

const schema = z.object({ module: z.string().min(1), export: z.string().min(1), args: z.array(z.unknown()) });

/**
 * Runs one task of a job submitted with `run()`: calls the submitted function with this task's cluster. The value that the function returns
 * on rank 0 becomes the job's result. An error from the function fails its task.
 */
export async function runCall(): Promise<void> {
  const cluster = await join();
  const call = schema.parse(JSON.parse((await cluster.read(CALL_DATA, CALL_FILE)).toString()));
  const module = (await import(pathToFileURL(resolve(call.module)).href)) as Readonly<Record<string, unknown>>;
  const called = module[call.export];
  if (typeof called !== 'function') {
    const names = Object.keys(module).join(', ') || 'nothing';
    throw new TonyError('FUNCTION_INVALID', `${call.module} exports no function ${call.export} (it exports: ${names})`);
  }
  const value: unknown = await called(cluster, ...call.args);
  if (cluster.isChief && cluster.outputUri !== null) {
    const result = {
      version: 1,
      ...(value !== undefined && { value: JSON.parse(encodeJsonValue(value, 'the returned value', 'FUNCTION_INVALID')) as unknown }),
    };
    await cluster.storage.write(joinUri(cluster.outputUri, RESULT_FILE), Buffer.from(JSON.stringify(result)));
  }
  await cluster.close();
  setTimeout(() => process.exit(), LEFTOVERS_MS).unref();
}
