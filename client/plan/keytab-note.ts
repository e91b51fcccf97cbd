import type { Job } from '../../conf/job.ts';
import type { JobKeytab } from '../job/job-keytab.ts';

/**
 * Returns notes about the keytab of a job.
 *
 * @param keytab null if the job runs locally or on a cluster without Kerberos
 */
export function keytabNotes({ kerberos }: Pick<Job, 'kerberos'>, keytab: Pick<JobKeytab, 'isExposed'> | null): string[] {
  if (kerberos === null) {
    return [];
  }
  if (keytab === null) {
    return ['kerberos has no effect here: without Kerberos, a job needs no keytab, and the file is not uploaded.'];
  }
  return keytab.isExposed ? [`Other users of this machine can read ${kerberos.keytab}: run chmod 600 ${kerberos.keytab}.`] : [];
}
