import { TonyError } from '../../platform/errors.ts';

export interface ApplicationId {
  /** When the ResourceManager started, in ms since the epoch. */
  readonly clusterTimestamp: number;
  readonly sequence: number;
}

export interface ContainerId {
  /** Number of times that the ResourceManager has restarted. The string form omits an epoch of 0. */
  readonly epoch: number;
  readonly application: ApplicationId;
  readonly attempt: number;
  /** The container's number within its attempt and epoch, starting at 1. */
  readonly sequence: number;
}

const APPLICATION = /^application_(\d{1,15})_(\d{1,9})$/;
const CONTAINER = /^container_(?:e(\d{1,9})_)?(\d{1,15})_(\d{1,9})_(\d{1,9})_(\d{1,12})$/;

/** `application_<cluster timestamp>_<sequence, at least 4 digits>` */
export function parseApplicationId(text: string): ApplicationId {
  const [, clusterTimestamp, sequence] = APPLICATION.exec(text) ?? [];
  if (sequence === undefined) {
    throw new TonyError('USAGE', `"${text}" is not an application ID.`, { hint: 'Use the form application_1700000000000_0001.' });
  }
  return { clusterTimestamp: Number(clusterTimestamp), sequence: Number(sequence) };
}

export function isApplicationId(text: string): boolean {
  return APPLICATION.test(text);
}

export function formatApplicationId(id: ApplicationId): string {
  return `application_${id.clusterTimestamp}_${padded(id.sequence, 4)}`;
}

/** `container_[e<epoch>_]<cluster timestamp>_<application, 4 digits>_<attempt, 2 digits>_<sequence, 6 digits>` */
export function parseContainerId(text: string): ContainerId {
  const [, epoch, clusterTimestamp, application, attempt, sequence] = CONTAINER.exec(text) ?? [];
  if (sequence === undefined) {
    throw new TonyError('USAGE', `"${text}" is not a container ID.`, { hint: 'Use the form container_1700000000000_0001_01_000002.' });
  }
  return {
    epoch: Number(epoch ?? 0),
    application: { clusterTimestamp: Number(clusterTimestamp), sequence: Number(application) },
    attempt: Number(attempt),
    sequence: Number(sequence),
  };
}

export function formatContainerId(id: ContainerId): string {
  const epoch = id.epoch > 0 ? `e${padded(id.epoch, 2)}_` : '';
  const application = `${id.application.clusterTimestamp}_${padded(id.application.sequence, 4)}`;
  return `container_${epoch}${application}_${padded(id.attempt, 2)}_${padded(id.sequence, 6)}`;
}

export function applicationOf(containerId: string): string {
  return formatApplicationId(parseContainerId(containerId).application);
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}
