/** The programs whose output `submit` shows. `chief`: the program of the task that determines the job's result. */
export const SHOWN_LOGS = ['chief', 'all', 'none'] as const;
export type ShownLogs = (typeof SHOWN_LOGS)[number];
