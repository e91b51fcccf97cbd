import { describe, expect, test } from 'vitest';
import { createLogger } from '../../platform/log.ts';
import { explainMasterExit } from './local-job.ts';

function logOf(write: (log: ReturnType<typeof createLogger>) => void): string {
  let text = '';
  write(createLogger({ process: 'application-master' }, { write: (line: string) => (text += line) }));
  return text;
}

describe('explainMasterExit', () => {
  test('names the folder whose disk is full', () => {
    const error = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    const log = logOf((logger) => logger.error({ err: error }, 'the state could not be written'));
    expect(explainMasterExit(log, '/disk/jobs')).toBe(
      'the disk of /disk/jobs is full. Free up space there, or set TONY_LOCAL_DIR to a folder with free space, and submit the job again.',
    );
    expect(explainMasterExit('Error: EDQUOT: disk quota exceeded', '/disk/jobs')).toContain('the disk of /disk/jobs is full');
  });

  test('quotes the messages of structured log lines, and plain lines unchanged', () => {
    const log = logOf((logger) => {
      logger.info('the gang is complete');
      logger.error({ err: new Error('the port is in use') }, 'the pages could not start');
    });
    expect(explainMasterExit(log, '/disk')).toBe('its last output:\nthe gang is complete\nthe pages could not start: the port is in use');
    expect(explainMasterExit('Segmentation fault\n', '/disk')).toBe('its last output:\nSegmentation fault');
    expect(explainMasterExit('', '/disk')).toBe('');
  });
});
