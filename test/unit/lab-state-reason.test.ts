import { describe, expect, it } from 'vitest';
import { rejectionReason, stateReason } from '../../src/lab/state-reason.ts';
import type { Finding, KernelRegistrationReport } from '../../src/lab/types.ts';
import { acceptedReport } from '../support/scripted-lab.ts';

const accepted = acceptedReport('mine', 'sha256:00');

/** A report whose last stage has these findings. */
const rejectedWith = (
  stage: KernelRegistrationReport['stages'][number]['stage'],
  findings: readonly Finding[],
): KernelRegistrationReport => ({ ...accepted, accepted: false, stages: [{ stage, ok: false, findings }] });

const finding = (message: string, rest: Partial<Finding> = {}): Finding => ({
  code: 'wrong_result',
  severity: 'error',
  message,
  ...rest,
});

describe('why a kernel cannot be bound', () => {
  it('an accepted kernel has no reason', () => {
    expect(rejectionReason(accepted)).toBeUndefined();
    expect(stateReason({ report: accepted }, undefined)).toBeUndefined();
  });

  it('names the check, what it found with its figures, and the line, in one line', () => {
    const warning = finding('a warning', { severity: 'warning' });
    expect(
      rejectionReason(rejectedWith('parity', [warning, finding('expected 1, got 2 at y[3]: NMSE 0.3')])),
    ).toBe('parity: wrong_result: expected 1, got 2 at y[3]: NMSE 0.3');
    const parse = finding('unable to parse\n  let x = ;', { code: 'wgsl_error', line: 12, column: 5 });
    expect(rejectionReason(rejectedWith('parse', [parse]))).toBe(
      'parse: wgsl_error: unable to parse (line 12)',
    );
  });

  it('is bounded, and keeps the line', () => {
    const reason = rejectionReason(rejectedWith('safety', [finding('x'.repeat(1000), { line: 7 })]));
    expect(reason).toHaveLength(300);
    expect(reason).toMatch(/x… \(line 7\)$/);
  });

  it('names the failed stage where no finding is an error', () => {
    expect(rejectionReason(rejectedWith('pipeline', []))).toBe('rejected by pipeline');
  });

  it('a quarantine comes before a rejection, and a rejection before another adapter', () => {
    const report = rejectedWith('parity', [finding('wrong')]);
    expect(stateReason({ report }, 'the host crashed')).toMatch(/^quarantine: the host crashed/);
    expect(stateReason({ report, isStale: true }, undefined)).toBe('parity: wrong_result: wrong');
    expect(stateReason({ report: accepted, isStale: true }, undefined)).toMatch(
      /^checked on another adapter/,
    );
    expect(stateReason({ report: { ...accepted, unverified: true } }, undefined)).toMatch(/not compared/);
  });
});
