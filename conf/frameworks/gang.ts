/** A task in the gang, with the data that frameworks need. */
export interface GangMember {
  readonly role: string;
  readonly index: number;
  /** Number of the task among the tasks with ranks, or null for a task without a rank. */
  readonly taskRank: number | null;
  readonly host: string;
  /** Number of processes that the task runs. */
  readonly processes: number;
  /** Port for the program's own server. */
  readonly port: number;
}

/** A task whose program is about to start, with the members of the task's generation. */
export interface GangPlace {
  readonly jobId: string;
  readonly generation: number;
  readonly role: string;
  readonly index: number;
  readonly maxRestarts: number;
  readonly members: readonly GangMember[];
}

export type RankedMember = GangMember & { readonly taskRank: number };

/** Returns the members that have a rank, in rank order. */
export function rankedMembers({ members }: Pick<GangPlace, 'members'>): RankedMember[] {
  return members.filter((member): member is RankedMember => member.taskRank !== null).sort((a, b) => a.taskRank - b.taskRank);
}

/** Returns the task's entry in `ranked`, or undefined for a task without a rank. */
export function ownMember(ranked: readonly RankedMember[], { role, index }: GangPlace): RankedMember | undefined {
  return ranked.find((member) => member.role === role && member.index === index);
}

export function processesIn(members: readonly GangMember[]): number {
  return members.reduce((sum, { processes }) => sum + processes, 0);
}

/** A process's numbers among all processes of the tasks with ranks, and within its task. */
export interface ProcessRank {
  readonly rank: number;
  readonly localRank: number;
  readonly worldSize: number;
}

/** Returns the ranks of the task's processes, in the order of their local ranks. Returns an empty list for a task without a rank. */
export function processRanks(place: GangPlace): ProcessRank[] {
  const ranked = rankedMembers(place);
  const { processes = 0 } = ownMember(ranked, place) ?? {};
  const first = firstProcess(place);
  return Array.from({ length: processes }, (_, localRank) => ({ rank: first + localRank, localRank, worldSize: processesIn(ranked) }));
}

/** Returns the number of processes in the ranked tasks before this task, which is the rank of this task's first process. */
export function firstProcess(place: GangPlace): number {
  const ranked = rankedMembers(place);
  return processesIn(
    ranked.slice(
      0,
      ranked.findIndex(({ role, index }) => role === place.role && index === place.index),
    ),
  );
}
