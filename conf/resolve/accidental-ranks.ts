import { gangRanks } from '../gang-ranks.ts';
import type { Job } from '../job.ts';
import type { JobYaml } from '../job-schema.ts';
import { kindOf } from './strategy-roles.ts';

/** Roles that train by their names. */
const TRAINING_ROLES: ReadonlySet<string> = new Set(['chief', 'worker']);
/** Beginnings of the names of roles that usually do not train. */
const NOT_TRAINING = /^(eval|test|valid|score|export|prepar|prep|load|download|monitor|log|metric|param|server?|store|db|dashboard)/;

/**
 * Returns a note for each role that has ranks only by default, although its name suggests that it does not train, or although another role
 * is called `worker` or `chief`. The gang would wait for a program that does not take part in it.
 */
export function accidentalRankNotes(file: JobYaml, job: Job): string[] {
  const names = Object.keys(file.roles);
  const isBesideTraining = names.some((name) => TRAINING_ROLES.has(name));
  const ranks = gangRanks(job);
  return names.flatMap((name) => {
    const byDefault = file.roles[name]?.kind === undefined && kindOf(file, name) === 'gang' && file.chief !== name;
    if (!byDefault || TRAINING_ROLES.has(name) || !(isBesideTraining || NOT_TRAINING.test(name))) {
      return [];
    }
    const own = ranks.get(name) ?? '';
    return [
      `Role ${name} trains with rank${/^\d+$/.test(own) ? '' : 's'} ${own}. Write kind: independent if its program does not train with the others, or kind: gang if it does.`,
    ];
  });
}
