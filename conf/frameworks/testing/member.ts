import type { GangMember } from '../gang.ts';

/** Returns a member with one process. The member's index is part of its host name and port. */
export function member(role: string, index: number, taskRank: number | null, host = `node${index}`): GangMember {
  return { role, index, taskRank, host, port: 4000 + index, processes: 1 };
}
