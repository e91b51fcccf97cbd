import type { Framework } from '../framework.ts';

/** Programs that find each other through the task file, or not at all. */
export const none: Framework = {
  title: 'none',
  programs: 'any other program',
  trainingLibrary: 'possibly',
  reserved: [],
};
