import { channel } from 'node:diagnostics_channel';
import type { TonyError } from '../../platform/errors.ts';

const SKIPPED = channel('tony-ts.skipped-server');
const reported = new Set<string>();

/**
 * Reports that this process skips a server, such as a DataNode, because it does not trust the server's certificate. Each server is reported
 * only once. The report goes through a diagnostics channel, because any request can cause it.
 */
export function reportSkippedServer(failure: TonyError): void {
  if (!reported.has(failure.message)) {
    reported.add(failure.message);
    SKIPPED.publish(failure);
  }
}

/** From now on, calls `listener` for each server that this process reports as skipped. */
export function onSkippedServer(listener: (failure: TonyError) => void): void {
  SKIPPED.subscribe((failure) => listener(failure as TonyError));
}
