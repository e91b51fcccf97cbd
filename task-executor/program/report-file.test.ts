import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ProgressSoFar, parseReport, ReportFile } from './report-file.ts';

function newFile(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'tony-report-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return path.join(folder, 'report.jsonl');
}

describe('parseReport', () => {
  it('accepts valid reports only', () => {
    expect(parseReport('{"type":"progress","step":3,"metrics":{"loss":0.5,"nan":null,"text":"x"}}')).toEqual({
      type: 'progress',
      step: 3,
      metrics: { loss: 0.5 },
    });
    expect(parseReport('{"type":"checkpoint","step":3}')).toEqual({ type: 'checkpoint', step: 3 });
    expect(parseReport('{"type":"peer-lost","taskRank":1}')).toEqual({ type: 'peer-lost', taskRank: 1 });
    expect(parseReport(`{"type":"notice","message":"${'x'.repeat(5000)}"}`)).toMatchObject({ message: 'x'.repeat(1000) });
    expect(parseReport('{"type":"early-end","step":3,"reason":"enough"}')).toEqual({ type: 'early-end', step: 3, reason: 'enough' });
    expect(parseReport('{"type":"permanent-failure"}')).toEqual({ type: 'permanent-failure' });
    for (const line of ['', '[]', 'null', '{"type":"progress","step":-1}', '{"type":"progress","step":1e300}', '{"type":"other"}']) {
      expect(parseReport(line)).toBeNull();
    }
  });

  it('never throws', () => {
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (line) => void parseReport(line)));
  });
});

describe('ReportFile', () => {
  it('reads whole lines even if writes split them, and returns each update once', () => {
    const file = newFile();
    const progress = new ProgressSoFar();
    const reports = new ReportFile(file, progress);
    reports.read();
    expect(progress.take()).toBeNull();
    writeFileSync(file, '{"type":"progress","step":1,"metrics":{"loss":2}}\n{"type":"prog');
    reports.read();
    expect(progress.take()).toEqual({ step: 1, metrics: { loss: 2 }, checkpointStep: 0, notices: [], earlyEnd: null });
    expect(progress.take()).toBeNull();
    appendFileSync(
      file,
      'ress","step":2,"metrics":{"accuracy":1}}\n{"type":"peer-lost","taskRank":3}\n{"type":"notice","message":"n"}\n{"type":"checkpoint","step":9}',
    );
    reports.read();
    expect(progress.take()).toEqual({
      step: 2,
      metrics: { loss: 2, accuracy: 1 },
      checkpointStep: 0,
      lostRank: 3,
      notices: [{ text: 'n', about: '' }],
      earlyEnd: null,
    });
    reports.read(true);
    expect(progress.take()).toMatchObject({ checkpointStep: 9, lostRank: 3, notices: [] });
  });

  it('each message repeats that training is ending, and the reason for an early end', () => {
    const progress = new ProgressSoFar();
    progress.add({ type: 'early-end', step: 3, reason: 'enough' });
    progress.add({ type: 'last-step', step: 3 });
    const expected = { earlyEnd: { step: 3, reason: 'enough' }, ending: true };
    for (const message of [progress.take(), progress.all()]) {
      expect(message).toMatchObject(expected);
    }
  });

  it('no longer reports the end of training when another phase begins', () => {
    const progress = new ProgressSoFar();
    progress.add({ type: 'last-step', step: 3 });
    progress.add({ type: 'progress', step: 3 });
    expect(progress.take()).toMatchObject({ ending: true });
    progress.add({ type: 'progress', step: 4 });
    expect(progress.take()?.ending).toBeUndefined();
  });

  it('skips invalid and overlong lines, and adds one notice', () => {
    const file = newFile();
    const progress = new ProgressSoFar();
    const reports = new ReportFile(file, progress);
    writeFileSync(file, `bad\nworse\n${'x'.repeat(3 << 20)}`);
    for (let look = 0; look < 5; look++) {
      reports.read();
    }
    appendFileSync(file, '\n{"type":"progress","step":5}\n');
    for (let look = 0; look < 5; look++) {
      reports.read();
    }
    expect(progress.take()).toMatchObject({ step: 5, notices: [{ text: expect.stringContaining('invalid line') }] });
  });

  it('returns an unsent message again, together with newer reports', () => {
    const progress = new ProgressSoFar();
    progress.add({ type: 'notice', message: 'first' });
    const taken = progress.take();
    progress.add({ type: 'notice', message: 'second' });
    if (taken !== null) {
      progress.giveBack(taken);
    }
    expect(progress.take()).toMatchObject({ notices: [{ text: 'first' }, { text: 'second' }] });
  });

  it('replaces a notice with a newer one on the same subject', () => {
    const progress = new ProgressSoFar();
    for (let at = 0; at < 100; at++) {
      progress.add(parseReport(`{"type":"notice","message":"${at}","about":"storage"}`));
    }
    const taken = progress.take();
    expect(taken?.notices).toEqual([{ text: '99', about: 'storage' }]);
    progress.add({ type: 'notice', message: 'written again', about: 'storage' });
    if (taken !== null) {
      progress.giveBack(taken);
    }
    expect(progress.take()?.notices).toEqual([{ text: 'written again', about: 'storage' }]);
  });

  it('limits the number of metrics and notices', () => {
    const progress = new ProgressSoFar();
    for (let at = 0; at < 1000; at++) {
      progress.add({ type: 'progress', step: at, metrics: { [`m${at}`]: at } });
      progress.add({ type: 'notice', message: `${at}` });
    }
    const taken = progress.take();
    expect(Object.keys(taken?.metrics ?? {})).toHaveLength(200);
    expect(taken?.notices).toHaveLength(20);
  });
});
