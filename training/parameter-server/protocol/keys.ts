import { createHmac } from 'node:crypto';
import { Secret } from '../../../platform/secret.ts';

/**
 * Returns the part of a tensor name that identifies a weight in checkpoints. The variable's own name is not part of the key, because it
 * may differ between programs.
 */
export function weightKey(name: string): string {
  return /^model:\d+:/.exec(name)?.[0] ?? name;
}

/**
 * Derives the key for handshakes with parameter servers from the ring's key. A handshake proof for the ring is therefore not valid for
 * parameter servers.
 */
export function serverKey(ringKey: Secret): Secret {
  return new Secret(createHmac('sha256', ringKey.reveal()).update('tony parameter server', 'latin1').digest());
}
