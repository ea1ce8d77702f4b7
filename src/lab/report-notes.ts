/** Additions to a registration report that concern the resident model. */
import type { Finding, KernelRegistration, KernelRegistrationReport } from './types.ts';

export const capturedUnavailable: Finding = {
  code: 'captured_unavailable',
  severity: 'info',
  message:
    'the model was busy, so the inputs contain no captured activations: register again when it is idle, or run parity on the live graph',
};

/** A kernel for weight formats that the resident model does not have can pass the gate, but cannot be bound. */
export function foreignFormats({ dtypes }: KernelRegistration, formats: readonly string[]): Finding[] {
  if (!dtypes || formats.length === 0 || formats.some((one) => dtypes.includes(one))) return [];
  const message = `the kernel was checked for weights in ${dtypes.join(', ')}, but the resident model has ${formats.join(', ')}: it cannot be bound here`;
  return [{ code: 'foreign_dtypes', severity: 'warning', message }];
}

/** Adds findings to the parity stage of a report. */
export function withNotes(
  report: KernelRegistrationReport,
  notes: readonly Finding[],
): KernelRegistrationReport {
  const stages = report.stages.map((one) =>
    one.stage === 'parity' ? { ...one, findings: [...one.findings, ...notes] } : one,
  );
  return { ...report, stages };
}

/** The fastest overrides for a shape, from the tuning sweep; empty without a sweep. */
export function bestFor(
  { tuning }: KernelRegistrationReport,
  lab: { readonly dims: Readonly<Record<string, number>>; readonly format?: string } | undefined,
): Readonly<Record<string, number>> {
  if (!tuning || !lab) return {};
  const marks = [
    ...Object.entries(lab.dims).map(([name, value]) => `${name}=${value}`),
    ...(lab.format === undefined ? [] : [lab.format]),
  ];
  const same = tuning.find(({ shape }) => marks.every((mark) => shape.split(' ').includes(mark)));
  return (same ?? tuning[0])?.best ?? {};
}
